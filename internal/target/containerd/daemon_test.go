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
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/command/commandtest"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/target/containerd"
)

// daemon plays a containerd behind its clients, as far as loading images needs one: it keeps names and their targets,
// contents, and what is unpacked.
type daemon struct {
	t         *testing.T
	runner    *commandtest.Runner
	socket    string
	mu        sync.Mutex
	names     map[string]string // to the digest of their target
	unpacked  map[string]bool
	content   map[string][]byte // by digest
	snapshots map[string]bool   // by chain
	labels    []string
	partSize  int64
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
	d := &daemon{
		t: t, runner: commandtest.New(t), names: map[string]string{}, unpacked: map[string]bool{},
		content: map[string][]byte{}, snapshots: map[string]bool{},
	}
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
	d.on("ctr", "images ls --quiet", d.list)
	d.on("ctr", "content ls --quiet", d.blobs)
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
	return containerd.New(containerd.Options{Address: d.socket, Runner: d.runner, PartSize: d.partSize})
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
		question := strings.Contains(call, " images check") || strings.Contains(call, " images ls") || strings.HasSuffix(call, "--help")
		if _, sub, ok := strings.Cut(call, " images "); ok && !question {
			calls = append(calls, d.labelled(sub))
		}
	}
	return calls
}

// state is every name and its target, labelled; what is not unpacked is marked.
func (d *daemon) state() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
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
	d.mu.Lock()
	defer d.mu.Unlock()
	var table strings.Builder
	table.WriteString("REF TYPE DIGEST STATUS SIZE UNPACKED \n")
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		target := d.names[name]
		if slices.Contains(args, fmt.Sprintf("name==%q", name)) || slices.Contains(args, fmt.Sprintf("target.digest==%q", target)) {
			fmt.Fprintf(&table, "%s  application/vnd.oci.image.index.v1+json  %s  %s (3/3)  199.3 KiB/199.3 KiB  %t \n",
				name, target, map[bool]string{true: "complete", false: "incomplete"}[d.complete(target)], d.unpacked[target])
		}
	}
	return command.Output{Stdout: table.String()}, nil
}

// importImage does what containerd's importer does: it keeps all blobs, names the image, and unpacks it.
func (d *daemon) importImage(args []string, stdin []byte) (command.Output, error) {
	if args[len(args)-1] != "-" {
		d.t.Errorf("import of %q", args)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name, target := d.keep(stdin)
	d.names[name] = target
	manifest := d.manifest(target)
	if d.kubelet {
		d.names[manifest.Config.Digest.String()] = target
	}
	if err := d.unpack(manifest); err != nil {
		return command.Output{}, err
	}
	d.unpacked[target] = true
	if d.imported != nil {
		return command.Output{}, d.imported(name, target)
	}
	return command.Output{Stdout: "unpacking " + name + "...done\n"}, nil
}

// unpack makes the snapshots of an image's layers, of those that are not there.
func (d *daemon) unpack(manifest ocispec.Manifest) error {
	var config ocispec.Image
	require.NoError(d.t, json.Unmarshal(d.content[manifest.Config.Digest.String()], &config))
	for i, chain := range identity.ChainIDs(slices.Clone(config.RootFS.DiffIDs)) {
		if layer := manifest.Layers[i].Digest.String(); !d.snapshots[chain.String()] && d.content[layer] == nil {
			return commandtest.Failure(1, "ctr: content digest "+layer+": not found\n")
		}
		d.snapshots[chain.String()] = true
	}
	return nil
}

// manifest is an image's by its digest, or, of an index, the first that is there.
func (d *daemon) manifest(target string) (manifest ocispec.Manifest) {
	require.NoError(d.t, json.Unmarshal(d.content[target], &manifest))
	var index ocispec.Index
	require.NoError(d.t, json.Unmarshal(d.content[target], &index))
	for _, child := range index.Manifests {
		if data, ok := d.content[child.Digest.String()]; ok {
			require.NoError(d.t, json.Unmarshal(data, &manifest))
		}
	}
	return manifest
}

// complete says whether all of an image is there.
func (d *daemon) complete(target string) bool {
	if d.content[target] == nil {
		return true // it was put there by the test
	}
	for _, layer := range d.manifest(target).Layers {
		if d.content[layer.Digest.String()] == nil {
			return false
		}
	}
	return true
}

func (d *daemon) list(args []string, _ []byte) (command.Output, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		part := slices.Contains(args, `name~="^pullonce[.]invalid/part/"`) && strings.HasPrefix(name, "pullonce.invalid/part/")
		if part || len(args) == 0 || slices.Contains(args, fmt.Sprintf("target.digest==%q", d.names[name])) {
			names.WriteString(name + "\n")
		}
	}
	return command.Output{Stdout: names.String()}, nil
}

func (d *daemon) blobs(args []string, _ []byte) (command.Output, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var blobs strings.Builder
	for sum := range d.content {
		if slices.Contains(args, "digest=="+sum) {
			blobs.WriteString(sum + "\n")
		}
	}
	return command.Output{Stdout: blobs.String()}, nil
}

func (d *daemon) tag(args []string, _ []byte) (command.Output, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
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
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range args {
		delete(d.names, name)
	}
	return command.Output{}, nil
}

// keep keeps the blobs of an archive, and gives the name that it has for its image, and the target.
func (d *daemon) keep(archive []byte) (name, target string) {
	var index ocispec.Index
	listed := false
	for tr := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		require.NoError(d.t, err)
		data, err := io.ReadAll(tr)
		require.NoError(d.t, err)
		require.False(d.t, listed && strings.Contains(h.Name, "blobs/"), "%s comes behind what lists it", h.Name)
		if h.Name == "index.json" {
			listed = true
			require.NoError(d.t, json.Unmarshal(data, &index))
		}
		d.content[digest.FromBytes(data).String()] = data
	}
	require.Len(d.t, index.Manifests, 1)
	return index.Manifests[0].Annotations["io.containerd.image.name"], index.Manifests[0].Digest.String()
}
