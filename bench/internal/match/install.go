//go:build linux

package match

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pullonce/pullonce/bench/internal/contender"
)

const (
	craneModule = "github.com/google/go-containerregistry/cmd/crane@v0.22.1"
	// engineModule and containerdModule are those of .ci/run.
	engineModule      = "github.com/moby/moby/v2/cmd/dockerd@v2.0.0-beta.24"
	containerdModule  = "github.com/containerd/containerd/v2/cmd"
	containerdVersion = "v2.4.2"
)

// packages are the programs that Debian has, by the package that brings them.
func packages() [][2]string {
	return [][2]string{
		{"docker", "docker.io"}, {"runc", "runc"}, {"containerd", "containerd"}, {"docker-registry", "docker-registry"}, {"node", "nodejs"},
		{"npm", "npm"}, {"zstd", "zstd"}, {"skopeo", "skopeo"}, {"busybox", "busybox-static"}, {"ldd", "libc-bin"},
	}
}

// missing are the packages to install.
func missing() []string {
	var names []string
	for _, p := range packages() {
		if _, err := exec.LookPath(p[0]); err != nil {
			names = append(names, p[1])
		}
	}
	return names
}

// install makes the programs that are no part of Debian: once those of others, each time our own.
func (o Options) install(ctx context.Context) (p contender.Programs, err error) {
	if names := missing(); len(names) > 0 {
		return p, fmt.Errorf("programs are missing: apt-get install -y --no-install-recommends %s", strings.Join(names, " "))
	}
	shared := filepath.Join(filepath.Dir(o.Cache), "pullonce-ci")
	if p.Modules, err = contender.InstallClient(ctx, o.Root, shared); err != nil {
		return p, err
	}
	tools := filepath.Join(o.Cache, "tools")
	p.Crane = filepath.Join(tools, "crane")
	if err := o.goInstall(ctx, tools, "", "crane", craneModule); err != nil {
		return p, err
	}
	if err := o.installEngine(ctx); err != nil {
		return p, err
	}
	if p.Pullonce, err = o.buildPullonce(ctx); err != nil {
		return p, err
	}
	help, _ := exec.CommandContext(ctx, p.Pullonce, "prime", "--help").CombinedOutput() // what fails does not say it
	p.Zstd = strings.Contains(string(help), "--layers")
	return p, nil
}

// installEngine builds Docker 29 and containerd, where .ci/run full has not done so.
func (o Options) installEngine(ctx context.Context) error {
	if err := o.goInstall(ctx, o.Bin, "exclude_graphdriver_btrfs netgo osusergo", "dockerd", engineModule); err != nil {
		return err
	}
	for _, program := range []string{"containerd", "ctr", "containerd-shim-runc-v2"} {
		if err := o.goInstall(ctx, o.Bin, "no_btrfs", program, containerdModule+"/"+program+"@"+containerdVersion); err != nil {
			return err
		}
	}
	return nil
}

// goInstall builds a program into a folder, if it is not there.
func (o Options) goInstall(ctx context.Context, dir, tags, program, module string) error {
	if _, err := os.Stat(filepath.Join(dir, program)); err == nil {
		return nil
	}
	fmt.Fprintf(o.Progress, "building %s, once\n", program)
	cmd := exec.CommandContext(ctx, "go", "install", "-tags", tags, module)
	cmd.Dir = "/" // the program's own modules, not ours
	cmd.Env = append(o.environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", program, err, out)
	}
	return nil
}

// buildPullonce builds our binary as a release is built: see the Makefile.
func (o Options) buildPullonce(ctx context.Context) (string, error) {
	if o.Pullonce != "" {
		return filepath.Abs(o.Pullonce)
	}
	program := filepath.Join(o.Temp, "pullonce")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=auto", "-ldflags", "-s -w -buildid=", "-o", program, ".")
	cmd.Dir = o.Root
	cmd.Env = append(o.environ(), "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building pullonce: %w\n%s", err, out)
	}
	return program, nil
}
