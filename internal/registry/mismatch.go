package registry

import (
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/retry"
)

const (
	// sameMismatch is how often the same wrong bytes may come before they are taken to be what the registry has.
	sameMismatch = 3
	// maxMismatch is how often any wrong bytes may come.
	maxMismatch = 6
)

// mismatchError is the cause of a fault in which the bytes were wrong.
type mismatchError struct{ got digest.Digest }

func (e *mismatchError) Error() string { return fmt.Sprintf("digest is %s", e.got) }

// Is makes it one of image's refusals of wrong bytes.
func (e *mismatchError) Is(target error) bool { return target == image.ErrVerify }

// mismatched is the fault of bytes whose digest is not what it must be: most often a cut or a page in their place.
func mismatched(got, want digest.Digest) *Fault {
	return &Fault{class: retry.Transient, text: fmt.Sprintf("what came has digest %s, not %s", got, want), cause: &mismatchError{got}}
}

// mismatches remembers what wrong bytes have come for one document or blob. The zero value is ready.
type mismatches struct {
	seen  map[digest.Digest]int
	total int
}

// judge turns a mismatch that will not pass into a permanent fault, and hands any other error on.
func (m *mismatches) judge(err error) error {
	wrong, ok := errors.AsType[*mismatchError](err)
	if !ok {
		return err
	}
	if m.seen == nil {
		m.seen = map[digest.Digest]int{}
	}
	m.seen[wrong.got]++
	m.total++
	switch {
	case m.seen[wrong.got] >= sameMismatch:
		return &Fault{class: retry.Permanent, text: fmt.Sprintf("%s, and so %d times", err, sameMismatch), cause: err}
	case m.total >= maxMismatch:
		return &Fault{class: retry.Permanent, text: fmt.Sprintf("%s, the last of %d wrong ones", err, maxMismatch), cause: err}
	}
	return err
}

func isPermanent(err error) bool {
	class, _ := retry.ClassOf(err)
	return class == retry.Permanent
}
