package podman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/target"
)

// program is podman behind its command (podman 4 and 5).
type program struct {
	runner command.Runner
	known  atomic.Pointer[about]
	// images and names serialise what two loads of this process would do to one image or to one name.
	images, names target.Locks
}

var _ target.Target = (*program)(nil)

// about is what podman says of itself.
type about struct {
	platform platform.Platform
	// root is where images are kept, temp where an archive is spooled; "" where they are not of this machine.
	root, temp string
}

// about asks podman who it is, once.
func (p *program) about(ctx context.Context) (about, error) {
	if known := p.known.Load(); known != nil {
		return *known, nil
	}
	said, err := p.run(ctx, nil, "info", "--format", "json")
	if err != nil {
		return about{}, err
	}
	var info struct {
		Host struct {
			OS, Arch        string
			ServiceIsRemote bool
		}
		Store struct{ GraphRoot, ImageCopyTmpDir string }
	}
	if err := json.Unmarshal([]byte(said), &info); err != nil {
		return about{}, fmt.Errorf("reading what podman info says: %w", err)
	}
	known := about{platform: platform.Normalize(platform.Platform{OS: info.Host.OS, Architecture: info.Host.Arch})}
	if known.platform.OS == "" || known.platform.Architecture == "" {
		return about{}, errors.New("podman info names no platform")
	}
	if !info.Host.ServiceIsRemote {
		known.root, known.temp = info.Store.GraphRoot, info.Store.ImageCopyTmpDir
	}
	p.known.Store(&known)
	return known, nil
}

// Platform implements target.Target.
func (p *program) Platform(ctx context.Context) (platform.Platform, error) {
	known, err := p.about(ctx)
	return known.platform, err
}

// errAbsent says that podman has no image by a name.
var errAbsent = errors.New("there is no such image")

// find is the id of the image that ref answers to, without the algorithm as podman has it; none is errAbsent. The size
// is asked for because it has podman look at every layer: one that lost some is an error.
func (p *program) find(ctx context.Context, ref string) (id string, err error) {
	said, err := p.run(ctx, nil, "image", "inspect", "--format", "{{.Id}} {{.Size}}", ref)
	if failed, ok := errors.AsType[*command.Error](err); ok && isAbsent(failed.Output.Stderr) {
		return "", fmt.Errorf("%s: %w", ref, errAbsent)
	}
	if err != nil {
		return "", err
	}
	id, _, _ = strings.Cut(strings.TrimSpace(said), " ")
	return id, nil
}

// isAbsent reads podman 4's words, and podman 3's and 5's.
func isAbsent(said string) bool {
	return strings.Contains(said, "image not known") || strings.Contains(said, "no such image")
}

// load sends an archive, and counts what podman took.
func (p *program) load(ctx context.Context, img image.Image) (sent int64, err error) {
	var n counter
	_, err = p.run(ctx, func(ctx context.Context, w io.Writer) error {
		return image.Encode(ctx, io.MultiWriter(w, &n), img)
	}, "load", "--quiet")
	return int64(n), err
}

type counter int64

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func (p *program) tag(ctx context.Context, id, name string) error {
	_, err := p.run(ctx, nil, "tag", id, name)
	return err
}

// untag takes a name from an image, and leaves the image.
func (p *program) untag(ctx context.Context, id, name string) error {
	_, err := p.run(ctx, nil, "untag", id, name)
	return err
}

// remove takes an image away that no container uses.
func (p *program) remove(ctx context.Context, ref string) error {
	_, err := p.run(ctx, nil, "rmi", ref)
	return err
}

func (p *program) run(ctx context.Context, stdin func(context.Context, io.Writer) error, args ...string) (string, error) {
	out, err := p.runner.Run(ctx, command.Command{Argv: append([]string{"podman"}, args...), Stdin: stdin})
	if failed, ok := errors.AsType[*command.Error](err); ok {
		return "", &programError{what: args[0], cause: failed}
	}
	if hung, ok := errors.AsType[*command.Hung](err); ok {
		return "", fmt.Errorf("podman %s %s within %s: it hangs, or its disk does", args[0], hung.Missed, hung.Limit)
	}
	return out.Stdout, err
}

// programError is podman's failure in one line: what it was about, what it said, and what to do where that is known.
type programError struct {
	what  string
	cause *command.Error
}

// Error implements error.
func (e *programError) Error() string {
	said := oneline.Of(strings.TrimPrefix(e.cause.Output.Stderr, "Error: "))
	if said == "" {
		said = e.cause.Reason()
	}
	text := "podman " + e.what + ": " + said
	if advice := advise(said); advice != "" {
		text += " (" + advice + ")"
	}
	return text
}

// Unwrap gives the cause.
func (e *programError) Unwrap() error { return e.cause }

// advise knows what to do about some of the things that podman says.
func advise(said string) string {
	switch {
	case strings.Contains(said, "no space left on device"):
		return "free space in /var/tmp and where podman keeps images: a load takes the archive and the unpacked image at once"
	case strings.Contains(said, "insufficient UIDs or GIDs"), strings.Contains(said, "lchown") && strings.Contains(said, "invalid argument"):
		return "the image has owners outside the range of this rootless podman: widen /etc/subuid and /etc/subgid, then podman system migrate"
	case strings.Contains(said, "zstd"):
		return "its layers are zstd, which this podman is too old for"
	case strings.Contains(said, "permission denied"):
		return "podman can't write where it keeps images: run it as the user that owns them"
	default:
		return ""
	}
}
