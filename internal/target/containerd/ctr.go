package containerd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/target"
)

// Ctr is a containerd behind its ctr command (containerd, cmd/ctr, 1.6 to 2.x).
type Ctr struct {
	// Runner runs ctr where the containerd is.
	Runner command.Runner
	// Argv is the command up to its subcommand: "ctr" with the flags that select address and namespace.
	Argv []string
	// Config reads containerd's configuration, which names the snapshotter that the kubelet's images are unpacked with;
	// "" where it can't be had. nil leaves the choice to ctr, which takes overlayfs or what CONTAINERD_SNAPSHOTTER says.
	Config func(ctx context.Context) string

	known  atomic.Pointer[dialect]
	flags  atomic.Pointer[[]string] // of an import
	asking target.Locks             // one at a time asks for them
}

var _ Stager = (*Ctr)(nil)

// dialect is what differs from one containerd to the next.
type dialect struct {
	about       About
	snapshotter []string // the flag, if it is given
}

// About implements Client.
func (c *Ctr) About(ctx context.Context) (About, error) {
	d, err := c.dialect(ctx)
	return d.about, err
}

func (c *Ctr) dialect(ctx context.Context) (dialect, error) {
	return once(ctx, &c.known, &c.asking, "dialect", c.ask)
}

// once gives what is known, or asks for it. What can't be had is asked for again.
func once[T any](ctx context.Context, known *atomic.Pointer[T], asking *target.Locks, name string, ask func(context.Context) (T, error)) (T, error) {
	if v := known.Load(); v != nil {
		return *v, nil
	}
	unlock, err := asking.Lock(ctx, name)
	if err != nil {
		var none T
		return none, err
	}
	defer unlock()
	if v := known.Load(); v != nil {
		return *v, nil
	}
	v, err := ask(ctx)
	if err == nil {
		known.Store(&v)
	}
	return v, err
}

// ask asks all there is to ask at once: in a node each question takes a tenth of a second.
func (c *Ctr) ask(ctx context.Context) (d dialect, err error) {
	var plugins, name string
	questions, asking := errgroup.WithContext(ctx)
	questions.Go(func() (err error) {
		plugins, err = c.question(asking, "plugins", "ls", "--detailed")
		return err
	})
	if c.Config != nil {
		questions.Go(func() error {
			name = snapshotterOf(c.Config(asking))
			return nil
		})
	}
	if err := questions.Wait(); err != nil {
		return dialect{}, err
	}
	if d.about, err = aboutOf(parsePlugins(plugins), name); err != nil {
		return dialect{}, err
	}
	if name != "" {
		d.snapshotter = []string{"--snapshotter", name}
	}
	return d, nil
}

// Prepare implements Stager.
func (c *Ctr) Prepare(ctx context.Context) { _, _ = c.importFlags(ctx) }

// importFlags are those of this ctr: the one that has it unpack by itself, which makes 100 MB 0.5 to 0.7 s faster; 1.6 does not
// have it, and does.
func (c *Ctr) importFlags(ctx context.Context) ([]string, error) {
	return once(ctx, &c.flags, &c.asking, "flags", func(ctx context.Context) ([]string, error) {
		help, err := c.question(ctx, "images", "import", "--help")
		if err != nil || !strings.Contains(help, "--local ") {
			return nil, err
		}
		return []string{"--local"}, nil
	})
}

// Find implements Client.
func (c *Ctr) Find(ctx context.Context, q Query) ([]Held, error) {
	d, err := c.dialect(ctx)
	if err != nil {
		return nil, err
	}
	table, err := c.question(ctx, d.check(q)...)
	if err != nil {
		return nil, err
	}
	return parseCheck(table)
}

// check are the arguments of the command that answers q.
func (d dialect) check(q Query) []string {
	args := append([]string{"images", "check"}, d.snapshotter...)
	for _, name := range q.Names {
		args = append(args, fmt.Sprintf("name==%q", name))
	}
	for _, sum := range q.Targets {
		args = append(args, fmt.Sprintf("target.digest==%q", sum))
	}
	return args
}

// Import implements Client.
func (c *Ctr) Import(ctx context.Context, a Archive) (held []Held, sent int64, err error) {
	d, err := c.dialect(ctx)
	if err != nil {
		return nil, 0, err
	}
	flags, err := c.importFlags(ctx)
	if err != nil {
		return nil, 0, err
	}
	input, err := a.input(&sent)
	if err != nil {
		return nil, 0, err
	}
	args := append([]string{"images", "import"}, flags...)
	chain := []command.Command{c.command(append(append(args, d.snapshotter...), "-")...)}
	chain[0].Stdin = input
	if a.Then != nil {
		chain = append(chain, c.command(d.check(*a.Then)...))
	}
	results := command.RunChain(ctx, c.Runner, chain)
	if _, err := said(results[0], "images import"); err != nil || a.Then == nil {
		return nil, sent, err
	}
	held, err = checked(results[1])
	return held, sent, err
}

// Tag implements Client.
func (c *Ctr) Tag(ctx context.Context, t Tagging) ([]Held, error) {
	if len(t.Names) == 0 {
		return c.Find(ctx, t.Then)
	}
	d, err := c.dialect(ctx)
	if err != nil {
		return nil, err
	}
	results := command.RunChain(ctx, c.Runner, []command.Command{
		c.command(append([]string{"images", "tag", "--force", t.Source}, t.Names...)...),
		c.command(d.check(t.Then)...),
	})
	if _, err := said(results[0], "images tag"); err != nil {
		return nil, err
	}
	return checked(results[1])
}

// checked is the answer to a question for images.
func checked(r command.Result) ([]Held, error) {
	table, err := said(r, "images check")
	if err != nil {
		return nil, err
	}
	return parseCheck(table)
}

// Remove implements Client.
func (c *Ctr) Remove(ctx context.Context, names []string) error {
	_, err := run(ctx, c.Runner, c.command(append([]string{"images", "rm"}, names...)...), "images rm")
	return err
}

func (c *Ctr) command(args ...string) command.Command {
	return command.Command{Argv: slices.Concat(c.Argv, args)}
}

// question runs what changes nothing.
func (c *Ctr) question(ctx context.Context, args ...string) (string, error) {
	asked := c.command(args...)
	asked.Asks = true
	return run(ctx, c.Runner, asked, strings.Join(args[:2], " "))
}

// parseCheck reads the table of "ctr images check": REF TYPE DIGEST STATUS SIZE UNPACKED, of which STATUS is two words,
// as in "complete (3/3)", and SIZE may be any number of them. No image is no table at all.
func parseCheck(table string) ([]Held, error) {
	var held []Held
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "REF" {
			continue
		}
		if len(f) < 5 {
			return nil, fmt.Errorf("reading what ctr images check says: %q is no image", strings.TrimSpace(line))
		}
		unpacked := f[len(f)-1] == "true"
		state := strings.Join(f[3:min(5, len(f)-1)], " ")
		if !unpacked {
			state += ", not unpacked"
		}
		held = append(held, Held{Name: f[0], Target: digest.Digest(f[2]), Whole: f[3] == "complete" && unpacked, State: state})
	}
	return held, nil
}

// plugin is one entry of "ctr plugins ls --detailed".
type plugin struct {
	kind, id, platform, root string
	broken                   bool
}

// The plugins that say where a containerd keeps images, and for what platform.
const (
	kindContent     = "io.containerd.content.v1"
	kindSnapshotter = "io.containerd.snapshotter.v1"
)

// parsePlugins reads "ctr plugins ls --detailed": paragraphs that begin with "Type:", of which each has lines of
// "Name: value", and indented ones below "Exports:" and "Error:".
func parsePlugins(list string) []plugin {
	var all []plugin
	for scan := bufio.NewScanner(strings.NewReader(list)); scan.Scan(); {
		f := strings.Fields(scan.Text())
		if len(f) > 0 && f[0] == "Type:" {
			all = append(all, plugin{kind: f[len(f)-1]})
		}
		if len(f) == 0 || len(all) == 0 {
			continue
		}
		last, value := &all[len(all)-1], f[len(f)-1]
		switch f[0] {
		case "ID:":
			last.id = value
		case "Platforms:":
			last.platform = value
		case "root":
			last.root = value
		case "Error:":
			last.broken = true
		}
	}
	return all
}

// aboutOf takes the platform from the snapshotters, whose snapshots containers run on. The one that is meant, if it is
// known, must work.
func aboutOf(plugins []plugin, snapshotter string) (About, error) {
	var about About
	works := snapshotter == ""
	for _, p := range plugins {
		used := p.kind == kindContent || (p.kind == kindSnapshotter && (p.id == snapshotter || snapshotter == "" && p.id == defaultSnapshotter))
		if used && p.root != "" {
			about.Roots = append(about.Roots, p.root)
		}
		if p.kind != kindSnapshotter || p.broken {
			continue
		}
		works = works || p.id == snapshotter
		if parsed, err := platform.Parse(p.platform); err == nil {
			about.Platform = parsed
		}
	}
	switch {
	case about.Platform.IsZero():
		return About{}, errors.New("no snapshotter of this containerd works: see ctr plugins ls")
	case !works:
		return About{}, fmt.Errorf("containerd is configured for the snapshotter %q, which does not work: see ctr plugins ls", snapshotter)
	}
	return about, nil
}
