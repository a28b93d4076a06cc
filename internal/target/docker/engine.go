package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	imageapi "github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/target"
)

// apiManifests is the first API version whose image inspect lists manifests (Docker 28). A containerd store behind an
// older one can't be asked whether an image is whole.
const apiManifests = "1.48"

// tinyLayers is the size of an image's layers, in bytes, below which they may unpack to no block at all.
const tinyLayers = 1 << 10

// What keeps a reference from being an image.
var (
	errAbsent = errors.New("there is no such image")
	errOther  = errors.New("another image")
	errBroken = errors.New("incomplete")
)

// found is what a reference answers to.
type found struct {
	id string
	// broken says what the image lacks; nil for a whole one.
	broken error
}

// find asks what ref answers to; nothing is errAbsent. What it lacks is judged for the platform of img.
func (d *Docker) find(ctx context.Context, ref string, img image.Image) (found, error) {
	var opts []client.ImageInspectOption
	if versions.GreaterThanOrEqualTo(d.api.ClientVersion(), apiManifests) {
		opts = append(opts, client.ImageInspectWithManifests(true))
	}
	var answer client.ImageInspectResult
	err := d.briefly(ctx, func(ctx context.Context) (err error) {
		answer, err = d.api.ImageInspect(ctx, ref, opts...)
		return err
	})
	switch {
	case cerrdefs.IsNotFound(err):
		return found{}, fmt.Errorf("%s: %w", ref, errAbsent)
	case err != nil:
		return found{}, fmt.Errorf("looking at %s: %w", ref, daemonError(err))
	}
	return found{id: answer.ID, broken: lacks(answer.Manifests, img)}, nil
}

// lacks says what is not there of img's manifest. A classic store lists no manifests, and has whole images only. The layers
// of a recompressed image are never those of its manifest: what counts is what the config, which the daemon had to read for
// it, says they unpack to.
func lacks(manifests []imageapi.ManifestSummary, img image.Image) error {
	for _, m := range manifests {
		if m.ID != img.Manifest().Digest.String() {
			continue
		}
		switch {
		case !m.Available && !img.Recompressed():
			return fmt.Errorf("manifest %s is %w: layers are missing", short(m.ID), errBroken)
		case m.ImageData != nil && m.ImageData.Size.Unpacked == 0 && sizeFrom(img, 0) >= tinyLayers:
			return fmt.Errorf("manifest %s is %w: it is not unpacked", short(m.ID), errBroken)
		}
	}
	return nil
}

func (d *Docker) tag(ctx context.Context, id, name string) error {
	err := d.briefly(ctx, func(ctx context.Context) error {
		_, err := d.api.ImageTag(ctx, client.ImageTagOptions{Source: id, Target: name})
		return err
	})
	if err != nil {
		return fmt.Errorf("tagging it: %w", daemonError(err))
	}
	return nil
}

// cleanUp removes an image that the load left behind, as far as nothing else uses it. The load has failed already, so
// that what fails here has nobody to tell.
func (d *Docker) cleanUp(ctx context.Context, ref string) {
	ctx, cancel := target.Cleaning(ctx)
	defer cancel()
	_ = d.briefly(ctx, func(ctx context.Context) error {
		_, err := d.api.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
		return err
	})
}

// undo gives the name back to the image that had it, or takes it away, unless somebody else moved it meanwhile.
func (l load) undo(ctx context.Context, name, before string) {
	ctx, cancel := target.Cleaning(ctx)
	defer cancel()
	now, err := l.find(ctx, name, l.img)
	ours := err == nil && slices.Contains(l.ids(), now.id)
	switch {
	case now.id == before:
	case before != "" && (ours || errors.Is(err, errAbsent)):
		_ = l.tag(ctx, before, name)
	case before == "" && ours:
		l.cleanUp(ctx, name)
	}
}

// engineError is a failure of the daemon, or of the connection to it, in one line.
type engineError struct {
	text string
	// gone says that it was the connection; final, that it is nothing which the way of a load could change.
	gone, final bool
	cause       error
}

// Error implements error.
func (e *engineError) Error() string { return e.text }

// Unwrap gives the cause.
func (e *engineError) Unwrap() error { return e.cause }

// isGone says whether err is a connection that failed or broke.
func isGone(err error) bool {
	e, ok := errors.AsType[*engineError](err)
	return ok && e.gone
}

// isSaid says whether err is something that the daemon said.
func isSaid(err error) bool {
	e, ok := errors.AsType[*engineError](err)
	return ok && !e.gone
}

// daemonError makes one line of what the client reports.
func daemonError(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), isSilence(err):
		return err
	case client.IsErrConnectionFailed(err):
		return &engineError{text: "the connection to the daemon broke: " + bare(err), gone: true, cause: err}
	default:
		return saidError(strings.TrimPrefix(err.Error(), "Error response from daemon: "), err)
	}
}

// saidError is what the daemon said, and what to do where that is known.
func saidError(said string, cause error) error {
	text := "the daemon says: " + oneline.Of(said)
	advice := advise(said)
	if advice != "" {
		text += " (" + advice + ")"
	}
	return &engineError{text: text, final: advice != "", cause: cause}
}

// advise knows what to do about some of the things that daemons say.
func advise(said string) string {
	switch {
	case strings.Contains(said, "no space left on device"):
		return "free space where Docker keeps its data: a load takes the archive and the unpacked image at once"
	case strings.Contains(said, "insufficient UIDs or GIDs"), strings.Contains(said, "lchown") && strings.Contains(said, "invalid argument"):
		return "the image has owners outside the range of this rootless daemon: widen /etc/subuid and /etc/subgid"
	case strings.Contains(said, "read-only file system"):
		return "Docker's data folder is mounted read-only"
	default:
		return ""
	}
}
