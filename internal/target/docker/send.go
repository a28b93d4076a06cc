package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/target"
)

// maxAnswer bounds what a daemon may answer to a load, in bytes. Without progress lines it says a few hundred. What it says
// of a pull has progress lines: each is bounded.
const maxAnswer = 1 << 20

// sendProven sends the image and proves that the daemon holds it whole. The first layers, which the daemon has of another
// image, are left out; where that does not do, the whole is sent.
func (l load) sendProven(ctx context.Context, first int, known bool) (sent int64, err error) {
	sent, err = l.sendFrom(ctx, first, known)
	if first == 0 || !(isSaid(err) || errors.Is(err, errAbsent) || errors.Is(err, errBroken)) {
		return sent, err
	}
	again, err := l.sendFrom(ctx, 0, known)
	return sent + again, err
}

// sendFrom sends the image without its first layers and proves that the daemon holds it whole. On an error what it left
// there is removed, unless the daemon knew the image before.
func (l load) sendFrom(ctx context.Context, first int, known bool) (sent int64, err error) {
	if err := l.room(first); err != nil {
		return 0, err
	}
	img, id, err := l.sending()
	if err != nil {
		return 0, err
	}
	sent, err = l.send(ctx, img, first)
	if err == nil {
		err = l.arrived(ctx, id)
	}
	if err != nil && !known {
		l.cleanUp(ctx, id)
	}
	return sent, l.aboutZstd(err)
}

// arrived proves that the daemon holds the whole image as id, after it has said that it does.
func (l load) arrived(ctx context.Context, id string) error {
	err := l.check(ctx, id)
	if errors.Is(err, errAbsent) {
		return fmt.Errorf("the daemon reported success, but %w", err)
	}
	return err
}

// sending is the image in the form in which it is sent, and what proves that it has arrived.
func (l load) sending() (img image.Image, id string, err error) {
	img, id = l.img, l.references()[0]
	if img.Reference().Tag() != "" {
		id = l.ids()[0]
		if img, err = img.Unnamed(); err != nil {
			return image.Image{}, "", err
		}
	}
	if l.daemon.containerd {
		img, err = target.Apart(img)
	}
	return img, id, err
}

// tooOldForZstd says whether the image has layers that the engine can't read. Docker reads zstd from 23.0 on, which came
// with API 1.42.
func (l load) tooOldForZstd() bool {
	zstd := func(layer image.Layer) bool { return strings.HasSuffix(layer.Descriptor.MediaType, "+zstd") }
	return !l.zstd && versions.LessThan(l.api.ClientVersion(), "1.42") && slices.ContainsFunc(l.img.Layers(), zstd)
}

// aboutZstd adds to what an engine says that is too old for the image's layers.
func (l load) aboutZstd(err error) error {
	if !isSaid(err) || !l.tooOldForZstd() {
		return err
	}
	return fmt.Errorf("%w (its layers are zstd, which Docker %s is too old for: 23.0 or later is needed)", err, oneline.Of(l.daemon.version))
}

// send streams the archive of img, without its first layers, into a load and reads the answer. The first failure is the cause of all others. A
// stream that breaks is an aborted request to the daemon, not a short one.
func (d *Docker) send(parent context.Context, img image.Image, first int) (int64, error) {
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	pr, pw := io.Pipe()
	watch := d.watch(fail)
	out := &counter{w: watched{watch, pw}}
	var encoder errgroup.Group
	encoder.Go(func() error {
		err := image.EncodeFrom(ctx, out, img, first)
		if err != nil && !errors.Is(err, io.ErrClosedPipe) {
			fail(err)
		}
		defer watch.wait(true)
		return pw.CloseWithError(err)
	})
	if err := d.post(ctx, pr, watch); err != nil {
		fail(err)
	}
	_ = pr.Close()
	_ = encoder.Wait()
	watch.stop()
	err := context.Cause(ctx)
	if isGone(err) || isSilence(err) {
		err = fmt.Errorf("after %d bytes of an image of %d: %w", out.n, img.Size(), err)
	}
	return out.n, err
}

// post is one load request and its answer.
func (d *Docker) post(ctx context.Context, archive io.Reader, watch *watch) error {
	answer, err := d.api.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
	if err != nil {
		return daemonError(err)
	}
	err = readAnswer(heard{watch, answer}, 0, func(string, string) error { return nil })
	return errors.Join(err, answer.Close())
}

// readAnswer finds the failure among the messages of a load or a pull, which have maxAnswer bytes in all, or at least more
// for each, and tells what each says of a layer, by its short id; an error of tell is the failure, too. The containerd store
// reports a failure that it had while unpacking as if it were progress (moby, daemon/containerd/image_exporter.go).
func readAnswer(r io.Reader, more int64, tell func(status, layer string) error) error {
	bounded := &io.LimitedReader{R: r, N: maxAnswer}
	messages := json.NewDecoder(bounded)
	for {
		var m struct {
			Stream      string `json:"stream"`
			Status      string `json:"status"`
			ID          string `json:"id"`
			Error       string `json:"error"`
			ErrorDetail struct {
				Message string `json:"message"`
			} `json:"errorDetail"`
		}
		err := messages.Decode(&m)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF) && bounded.N > 0:
			return &engineError{text: "the connection to the daemon broke, in the middle of its answer", gone: true, cause: err}
		case err != nil:
			return &engineError{text: "its answer broke off: " + oneline.Of(err.Error()), gone: true, cause: err}
		}
		if said := cmp.Or(m.ErrorDetail.Message, m.Error); said != "" {
			return saidError(said, nil)
		}
		if strings.HasPrefix(m.Stream, "Error unpacking") {
			return saidError(m.Stream, nil)
		}
		if err := tell(m.Status, m.ID); err != nil {
			return err
		}
		bounded.N = max(bounded.N, more)
	}
}

// counter counts what was written.
type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
