//go:build linux

package contender

import (
	"context"
	"fmt"
	"strings"

	"github.com/pullonce/pullonce/bench/internal/measure"
	"github.com/pullonce/pullonce/bench/internal/sample"
	"github.com/pullonce/pullonce/bench/internal/stage"
)

// The targets by name.
const (
	Docker           = "docker"            // Docker 29, classic image store
	DockerContainerd = "docker-containerd" // Docker 29, containerd image store
	Docker20         = "docker-20.10"      // Debian's
	Kind             = "kind"              // a kind node in DockerContainerd
)

// Targets are all of them by name; Docker20 is Debian's.
func Targets() []string { return []string{Docker, DockerContainerd, Docker20, Kind} }

// Target is what images are loaded into.
type Target interface {
	Name() string
	// Into is its name for pullonce.
	Into() string
	// Load is how people load an archive into it.
	Load(archive string) measure.Command
	// Verify proves that it has the image under its reference, whole, and runs it.
	Verify(ctx context.Context, ref string, img sample.Image) error
	// VerifyAny proves that it has the image, whole, under any name.
	VerifyAny(ctx context.Context, ref string, img sample.Image) error
	// Empty removes all images from it.
	Empty(ctx context.Context) error
	// Processes are those that work in it.
	Processes() []int
}

// engineTarget is a Docker engine.
type engineTarget struct {
	name   string
	engine *stage.Engine
}

var _ Target = engineTarget{}

// Engine makes a target of an engine.
func Engine(name string, e *stage.Engine) Target { return engineTarget{name, e} }

func (t engineTarget) Name() string     { return t.name }
func (t engineTarget) Into() string     { return "docker" }
func (t engineTarget) Processes() []int { return t.engine.Processes() }

func (t engineTarget) Empty(ctx context.Context) error {
	return t.engine.Empty(ctx, stage.NodeImage)
}

func (t engineTarget) Load(archive string) measure.Command {
	return measure.Command{Argv: []string{"docker", "load", "--input", archive}, Env: t.engine.Client()}
}

// Verify implements Target. A classic store calls an image by its config's digest, whoever loaded it; in containerd's it is
// that of a manifest, which an archive without the original one can't have, so there the container alone proves it.
func (t engineTarget) Verify(ctx context.Context, ref string, img sample.Image) error {
	id, err := t.engine.Docker(ctx, "image", "inspect", "--format", "{{.Id}}", ref)
	if err != nil {
		return err
	}
	if !t.engine.ContainerdStore && id != img.Config {
		return fmt.Errorf("%s is %s, not %s", ref, id, img.Config)
	}
	_, err = t.engine.Docker(ctx, append([]string{"run", "--rm", "--network", "none", "--pull", "never", ref}, img.Check()...)...)
	return err
}

// VerifyAny implements Target: a load into an engine gives the image its name.
func (t engineTarget) VerifyAny(ctx context.Context, ref string, img sample.Image) error {
	return t.Verify(ctx, ref, img)
}

// nodeTarget is a kind node.
type nodeTarget struct {
	engine *stage.Engine
	node   *stage.Node
}

var _ Target = nodeTarget{}

// Node makes a target of a kind node in an engine.
func Node(n *stage.Node, e *stage.Engine) Target { return nodeTarget{e, n} }

func (t nodeTarget) Name() string                    { return Kind }
func (t nodeTarget) Into() string                    { return "kind" }
func (t nodeTarget) Empty(ctx context.Context) error { return t.node.Empty(ctx) }

func (t nodeTarget) Processes() []int { return append(t.engine.Processes(), t.node.Processes()...) }

// Load implements Target: what kind load image-archive runs, in kind's LoadImageArchive.
func (t nodeTarget) Load(archive string) measure.Command {
	return measure.Command{
		Argv: []string{"docker", "exec", "--interactive", stage.NodeName, "ctr", "--namespace=k8s.io", "images", "import",
			"--all-platforms", "--digests", "--snapshotter=overlayfs", "-"},
		Env: t.engine.Client(), Stdin: archive,
	}
}

// Verify implements Target.
func (t nodeTarget) Verify(ctx context.Context, ref string, img sample.Image) error {
	listed, err := t.node.Ctr(ctx, "images", "check", "--quiet", "name=="+ref)
	if err != nil {
		return err
	}
	if strings.TrimSpace(listed) != ref {
		return fmt.Errorf("the node does not have %s whole: %q", ref, listed)
	}
	return t.run(ctx, ref, img)
}

// VerifyAny implements Target.
func (t nodeTarget) VerifyAny(ctx context.Context, ref string, img sample.Image) error {
	listed, err := t.node.Ctr(ctx, "images", "check", "--quiet")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(listed) {
		if err = t.run(ctx, name, img); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the node has %s under none of the names %q that are whole: %w", ref, listed, err)
}

// run makes a container of an image and checks its files in it.
func (t nodeTarget) run(ctx context.Context, ref string, img sample.Image) error {
	_, err := t.node.Ctr(ctx, append([]string{"run", "--rm", "--snapshotter=overlayfs", ref, "bench-check"}, img.Check()...)...)
	return err
}
