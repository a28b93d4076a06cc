//go:build linux

package match

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/pullonce/pullonce/bench/internal/result"
)

// machine says what the benchmark runs on.
func machine(o Options) (m result.Machine, err error) {
	files := map[string]string{}
	for _, name := range []string{"/proc/cpuinfo", "/proc/meminfo", "/proc/self/mounts", "/proc/sys/kernel/osrelease", "/etc/os-release"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return m, fmt.Errorf("reading what machine this is: %w", err)
		}
		files[name] = string(data)
	}
	m = result.Machine{
		System: strings.Trim(field(files["/etc/os-release"], "PRETTY_NAME", "="), `"`), Kernel: strings.TrimSpace(files["/proc/sys/kernel/osrelease"]),
		CPU: field(files["/proc/cpuinfo"], "model name", ":"), Cores: runtime.NumCPU(), FileSystems: map[string]string{},
	}
	kib, err := strconv.ParseInt(strings.TrimSuffix(field(files["/proc/meminfo"], "MemTotal", ":"), " kB"), 10, 64)
	if err != nil {
		return m, fmt.Errorf("reading how much memory there is: %w", err)
	}
	m.Memory = kib << 10
	for _, data := range o.Data {
		m.FileSystems[data] = fileSystem(files["/proc/self/mounts"], o.folder(data))
	}
	if m.FileSystems[Disk] == "tmpfs" {
		return m, fmt.Errorf("%s is in memory: name a folder on a disk with -dir", o.folder(Disk))
	}
	return m, nil
}

// field is the value behind a name at the start of a line.
func field(text, name, separator string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, separator); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// fileSystem is the type of the file system that a folder is on, by the longest mount point above it.
func fileSystem(mounts, folder string) string {
	var at, kind string
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		point := strings.TrimSuffix(fields[1], "/")
		if strings.HasPrefix(folder+"/", point+"/") && len(point) >= len(at) {
			at, kind = point, fields[2]
		}
	}
	return kind
}

// versions asks the programs for theirs.
func (h *hall) versions(ctx context.Context) (versions map[string]string, err error) {
	bin := h.options.Bin
	commands := map[string][]string{
		"docker":          {"docker", "--version"},
		"dockerd 29":      {filepath.Join(bin, "dockerd"), "--version"},
		"containerd 2.4":  {filepath.Join(bin, "containerd"), "--version"},
		"runc":            {"runc", "--version"},
		"docker-registry": {"docker-registry", "--version"},
		"node":            {"node", "--version"},
		"zstd":            {"zstd", "--version"},
		"skopeo":          {"skopeo", "--version"},
		"crane":           {h.programs.Crane, "version"},
		"go":              {"go", "version"},
	}
	versions = map[string]string{}
	for name, argv := range commands {
		out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
		if err != nil {
			return nil, fmt.Errorf("asking %s for its version: %w", name, err)
		}
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		versions[name] = strings.Trim(first, "* ")
	}
	if versions["pullonce"], err = h.ownVersion(ctx); err != nil {
		return nil, err
	}
	versions["dockerd 29"] += " (" + engineModule[strings.LastIndexByte(engineModule, '@')+1:] + ")"
	versions["containerd 2.4"] += " (" + containerdVersion + ")"
	return versions, h.moduleVersions(versions)
}

// ownVersion is the commit that our binary is of; of one that was given it is what its bytes are.
func (h *hall) ownVersion(ctx context.Context) (string, error) {
	if h.options.Pullonce != "" {
		data, err := os.ReadFile(h.options.Pullonce)
		return fmt.Sprintf("%s, sha256 %.6x", filepath.Base(h.options.Pullonce), sha256.Sum256(data)), err
	}
	out, err := exec.CommandContext(ctx, "git", "-C", h.options.Root, "describe", "--always", "--dirty", "--tags").Output()
	if err != nil {
		return "", fmt.Errorf("asking git for our version: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// moduleVersions adds those of what npm installed.
func (h *hall) moduleVersions(versions map[string]string) error {
	for _, name := range []string{"@actions/cache", "azurite"} {
		data, err := os.ReadFile(filepath.Join(h.programs.Modules, "node_modules", name, "package.json"))
		if err != nil {
			return err
		}
		var about struct{ Version string }
		if err := json.Unmarshal(data, &about); err != nil {
			return fmt.Errorf("reading the version of %s: %w", name, err)
		}
		versions[name] = about.Version
	}
	return nil
}
