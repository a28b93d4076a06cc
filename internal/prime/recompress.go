package prime

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pullonce/pullonce/internal/report"
)

// deliver recompresses the image, where that is wanted, and moves it into the store. While one image is on its way there,
// the next is recompressed.
func (r *run) deliver(ctx context.Context, t *task) error {
	if err := r.recompress(ctx, t); err != nil {
		t.row.Attempts = t.pull.Attempts()
		return errors.Join(err, t.close())
	}
	return r.move(ctx, t)
}

// recompress replaces the image's layers by the same contents in zstd, as they come from the registry. What has no layer
// for that goes on as it is.
func (r *run) recompress(ctx context.Context, t *task) error {
	if t.claim == nil || t.claim.Size() == 0 {
		return nil
	}
	started := r.now()
	track := r.Progress.Begin(t.item.Name+" to zstd", t.claim.Size())
	defer track.End()
	img, err := t.claim.Image(ctx, func(ctx context.Context, i int, use func(io.Reader) error) error {
		return t.pull.Relay(ctx, i, func(blob io.Reader) error { return use(tracked{blob, track}) })
	})
	if err != nil {
		return err
	}
	t.img = img
	t.gain = fmt.Sprintf("zstd: %s → %s in %s", report.Bytes(t.pull.Image.Size()), report.Bytes(img.Size()), report.Duration(r.now().Sub(started)))
	return nil
}

// tracked shows a track how a blob is read.
type tracked struct {
	io.Reader
	track report.Track
}

// Read implements io.Reader.
func (t tracked) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.track.Add(n)
	return n, err
}
