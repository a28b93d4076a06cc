package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionCommand prints what this binary was built from.
type versionCommand struct{}

func (versionCommand) run(_ context.Context, s *session) (ExitCode, error) {
	fmt.Fprintf(s.Stdout, "pullonce %s %s/%s %s\n", version(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	return ExitOK, nil
}

// version is the module's, and the commit where the build was made in a checkout.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	v := info.Main.Version
	if v == "" {
		v = "(devel)"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && v == "(devel)" {
			v += " " + setting.Value[:min(12, len(setting.Value))]
		}
	}
	return v
}
