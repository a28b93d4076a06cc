package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store"
)

// outage is a store that can't be asked. What the first image learns of it holds for those that follow: they do not
// wait for the same again, and one problem speaks for all.
type outage struct {
	mu    sync.Mutex
	cause error
	names []string
}

// outageError is a storeFault that is not about one entry but about the store.
type outageError struct{ error }

func (e outageError) Unwrap() error { return e.error }

func isOutage(err error) bool {
	_, ok := errors.AsType[outageError](err)
	return ok
}

// known is the outage, if there is one.
func (o *outage) known() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause == nil {
		return nil
	}
	return outageError{o.cause}
}

// judge says what an error of opening an entry is about: the entry, or the store.
func (o *outage) judge(ctx context.Context, err error) error {
	about := []error{store.ErrNotFound, store.ErrCorrupt, image.ErrVerify}
	if ctx.Err() != nil || slices.ContainsFunc(about, func(entry error) bool { return errors.Is(err, entry) }) {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause == nil {
		o.cause = err
	}
	return outageError{err}
}

// concerns notes an image that goes without the store.
func (o *outage) concerns(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.names, name) {
		o.names = append(o.names, name)
	}
}

// tellOutage is the one problem of a store that can't be asked; it names the images that went without.
func (r *run) tellOutage() {
	if len(r.outage.names) == 0 {
		return
	}
	slices.Sort(r.outage.names)
	r.log.Add(report.Problem{
		Severity: r.severity(), Kind: "store", Image: strings.Join(r.outage.names, ", "),
		Message: fmt.Sprintf("there is no store to load from: %s; without it: %s", report.Line(r.outage.cause), abridge(r.outage.names)),
	})
}
