package containerd_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/command/commandtest"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/target/containerd"
)

// daemon plays a containerd behind its clients, as far as loading images needs one: it keeps names and their targets,
// and what is unpacked.
type daemon struct {
	t        *testing.T
	runner   *commandtest.Runner
	socket   string
	names    map[string]string // to the digest of their target
	unpacked map[string]bool
	labels   []string
	// imported, if set, is told of each import, once it is done, and fails it.
	imported func(name, target string) error
	// kubelet has the CRI plugin name what is imported by its config.
	kubelet bool
}

const plugins16 = `Type:          io.containerd.content.v1
ID:            content
Exports:      
               root      ROOT/content
                            
Type:          io.containerd.snapshotter.v1
ID:            devmapper
Platforms:     linux/arm64/v8
Error:        
               Code:        Unknown
               Message:     devmapper not configured
                               
Type:          io.containerd.snapshotter.v1
ID:            overlayfs
Platforms:     linux/amd64
Exports:      
               root      ROOT/overlayfs
                            
Type:          io.containerd.snapshotter.v1
ID:            native
Platforms:     linux/amd64

`

// newDaemon is one that ctr can talk to: with local, one of 2.x.
func newDaemon(t *testing.T, local bool) *daemon {
	t.Helper()
	d := &daemon{t: t, runner: commandtest.New(t), names: map[string]string{}, unpacked: map[string]bool{}}
	d.socket = listen(t)
	help := "   --no-unpack  skip unpacking\n   --snapshotter value  snapshotter name.\n"
	if local {
		help += "   --local  Run import locally rather than through transfer API\n"
	}
	d.on("ctr", "plugins ls --detailed", commandtest.Says(strings.ReplaceAll(plugins16, "ROOT", t.TempDir())))
	d.on("ctr", "images import --help", commandtest.Says(help))
	d.on("ctr", "images import", d.importImage)
	d.on("ctr", "images check", d.check)
	d.on("ctr", "images tag --force", d.tag)
	d.on("ctr", "images rm", d.remove)
	return d
}

// listen is a socket that exists and answers nobody, which is all that is asked of it before a client is run.
func listen(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pullonce") // short: a socket's path has room for 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "c.sock")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return path
}

func (d *daemon) on(program, subcommand string, p commandtest.Program) {
	d.runner.On(program+" --address "+d.socket+" --namespace k8s.io "+subcommand, p)
}

func (d *daemon) target() *containerd.Containerd {
	return containerd.New(containerd.Options{Address: d.socket, Runner: d.runner})
}

// label has img's digests shown as NAME.root, NAME.manifest and NAME.config.
func (d *daemon) label(name string, img image.Image) {
	d.labels = append(d.labels, img.Root().Digest.String(), name+".root", img.Manifest().Digest.String(), name+".manifest",
		img.Config().Digest.String(), name+".config")
}

func (d *daemon) labelled(s string) string { return strings.NewReplacer(d.labels...).Replace(s) }

// hold puts a whole img into the daemon.
func (d *daemon) hold(img image.Image, names ...string) {
	for _, name := range names {
		d.names[name] = img.Root().Digest.String()
	}
	d.unpacked[img.Root().Digest.String()] = true
}

// calls are what was run since the last time, without flags and without questions.
func (d *daemon) calls() []string {
	var calls []string
	for _, call := range d.runner.Calls() {
		if _, sub, ok := strings.Cut(call, " images "); ok && !strings.HasPrefix(sub, "check") && !strings.HasSuffix(sub, "--help") {
			calls = append(calls, d.labelled(sub))
		}
	}
	return calls
}

// state is every name and its target, labelled; what is not unpacked is marked.
func (d *daemon) state() map[string]string {
	state := map[string]string{}
	for name, target := range d.names {
		value := d.labelled(target)
		if !d.unpacked[target] {
			value += " (not unpacked)"
		}
		state[d.labelled(name)] = value
	}
	return state
}

func (d *daemon) check(args []string, _ []byte) (command.Output, error) {
	var table strings.Builder
	table.WriteString("REF TYPE DIGEST STATUS SIZE UNPACKED \n")
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		target := d.names[name]
		if slices.Contains(args, fmt.Sprintf("name==%q", name)) || slices.Contains(args, fmt.Sprintf("target.digest==%q", target)) {
			fmt.Fprintf(&table, "%s  application/vnd.oci.image.index.v1+json  %s  complete (3/3)  199.3 KiB/199.3 KiB  %t \n", name, target, d.unpacked[target])
		}
	}
	return command.Output{Stdout: table.String()}, nil
}

func (d *daemon) importImage(args []string, stdin []byte) (command.Output, error) {
	if args[len(args)-1] != "-" {
		d.t.Errorf("import of %q", args)
	}
	name, target, config := readArchive(d.t, stdin)
	d.names[name], d.unpacked[target] = target, true
	if d.kubelet {
		d.names[config] = target
	}
	if d.imported != nil {
		return command.Output{}, d.imported(name, target)
	}
	return command.Output{Stdout: "unpacking " + name + "...done\n"}, nil
}

func (d *daemon) tag(args []string, _ []byte) (command.Output, error) {
	target, ok := d.names[args[0]]
	if !ok {
		return command.Output{}, commandtest.Failure(1, "ctr: image \""+args[0]+"\": not found\n")
	}
	for _, name := range args[1:] {
		d.names[name] = target
	}
	return command.Output{}, nil
}

func (d *daemon) remove(args []string, _ []byte) (command.Output, error) {
	for _, name := range args {
		delete(d.names, name)
	}
	return command.Output{}, nil
}

// readArchive is the name that an archive gives its image, the root and the config.
func readArchive(t *testing.T, data []byte) (name, root, config string) {
	t.Helper()
	members := map[string][]byte{}
	for tr := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		members[h.Name], err = io.ReadAll(tr)
		require.NoError(t, err)
	}
	var index ocispec.Index
	require.NoError(t, json.Unmarshal(members["index.json"], &index))
	require.Len(t, index.Manifests, 1)
	var list []struct{ Config string }
	require.NoError(t, json.Unmarshal(members["manifest.json"], &list))
	only := index.Manifests[0]
	return only.Annotations["io.containerd.image.name"], only.Digest.String(), "sha256:" + filepath.Base(list[0].Config)
}
