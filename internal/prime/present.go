package prime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store"
)

// present looks the item up. Where its entry is there and fit for use, row says so; else row has no source yet and the
// result is the generation to save.
func (r *run) present(ctx context.Context, item plan.Item, row *report.Image) (generation int, err error) {
	entry, err := r.Store.Stat(ctx, item.Key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if errors.Is(err, store.ErrCorrupt) {
		r.replaces(item, corrupt(err))
		return entry.Generation + 1, nil
	}
	if err != nil {
		return 0, err
	}
	replace, err := r.unfit(ctx, item, entry, row)
	if err != nil {
		return 0, err
	}
	if replace != "" {
		r.replaces(item, replace)
		return entry.Generation + 1, nil
	}
	row.Source, row.Outcome, row.Size = report.Cache, "cached", entry.Size
	return entry.Generation, nil
}

// replaces tells why an entry that is there is saved anew.
func (r *run) replaces(item plan.Item, why string) {
	r.log.Add(report.Problem{Severity: report.Notice, Kind: "replaced", Image: item.Name, Message: item.Name + ": " + why})
}

func corrupt(err error) string { return "the entry is corrupt and is replaced: " + report.Line(err) }

// unfit says why an entry that is there must be replaced; "" means that it must not. Unless it is told to read the
// entry again, or a tag pin's entry has come of age, nothing is moved.
func (r *run) unfit(ctx context.Context, item plan.Item, entry store.Entry, row *report.Image) (string, error) {
	aged := r.aged(item, entry)
	if !r.VerifyFull && !aged {
		return "", nil
	}
	ctx, cancel := context.WithCancel(ctx) // an opened entry stays open until its context ends
	defer cancel()
	img, err := r.Store.Open(ctx, item.Key)
	if err == nil {
		err = r.holds(img, item)
	}
	if err == nil && r.VerifyFull {
		err = image.Verify(ctx, img)
	}
	switch {
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, image.ErrVerify), errors.Is(err, store.ErrNotFound):
		return corrupt(err), nil
	case err != nil:
		return "", fmt.Errorf("reading %s again: %w", item.Key, err)
	}
	row.Digest = img.Root().Digest.String()
	if !aged {
		return "", nil
	}
	return r.moved(ctx, item, img), nil
}

// holds refuses an entry that holds something else than the item.
func (r *run) holds(img image.Image, item plan.Item) error {
	if err := img.Is(item.Pin.Reference, item.Platform); err != nil {
		return err
	}
	if err := fits(item, img); err != nil {
		return fmt.Errorf("%w: %w", image.ErrVerify, err)
	}
	if img.Recompressed() && r.Recompress == nil {
		return fmt.Errorf("%w: its layers are not the registry's own", image.ErrVerify)
	}
	return nil
}

// skew is how far another machine's clock may be ahead. An entry from further in the future has no age to trust.
const skew = time.Hour

// aged says whether the registry must be asked about the entry: a tag can move, a digest can't.
func (r *run) aged(item plan.Item, entry store.Entry) bool {
	if item.Pin.Reference.Digest() != "" {
		return false
	}
	age := r.now().Sub(entry.Saved)
	return r.MaxAge <= 0 || entry.Saved.IsZero() || age > r.MaxAge || age < -skew
}

// moved asks the registry whether the tag has moved since the entry was saved. A registry that does not answer leaves
// the entry in use.
func (r *run) moved(ctx context.Context, item plan.Item, img image.Image) string {
	now, err := r.Registry.Digest(ctx, item.Pin.Reference)
	if err != nil {
		r.log.Add(report.Problem{
			Severity: report.Warning, Kind: "max-age", Image: item.Name,
			Message: fmt.Sprintf("%s: the entry is older than max-age and the registry does not say whether the tag has moved, so it stays in use: %s", item.Name, report.Line(err)),
		})
		return ""
	}
	if was := img.Root().Digest; now != was {
		return fmt.Sprintf("the tag has moved from %s to %s", was, now)
	}
	return ""
}
