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
	_, err := fmt.Fprintln(s.Stdout, versionLine())
	return ExitOK, err
}

// versionLine is the version with what the binary is for and was made by.
func versionLine() string {
	return fmt.Sprintf("pullonce %s %s/%s %s", version(), runtime.GOOS, runtime.GOARCH, runtime.Version())
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
