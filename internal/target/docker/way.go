package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/target"
)

// Way is how the bytes of an image get into a daemon.
type Way int

const (
	// Best is the faster of the two where it works, and else the other.
	Best Way = iota
	// Pull has the daemon pull from a registry in this process. It unpacks a layer while it gets the next ones. What a daemon
	// can't pull is sent.
	Pull
	// Archive sends a "docker load". The daemon takes the whole of it before it unpacks any.
	Archive
)

// The sizes of an image's layers, in bytes, from which on a pull is faster than an archive. A containerd store is told the
// root afterwards, and forgets the name of the pull, which take it some 60 ms.
const (
	worthClassic    = 2 << 20
	worthContainerd = 16 << 20
)

// bring gets the image into the daemon, proven whole. The temporary name that its layers may have there is for the caller to
// remove, also where an error is returned.
func (l load) bring(ctx context.Context, known bool) (temporary string, sent int64, err error) {
	if l.img.Recompressed() && l.tooOldForZstd() {
		return "", 0, fmt.Errorf("%w: Docker %s is too old for them, 23.0 or later is needed", target.ErrRecompressed, oneline.Of(l.daemon.version))
	}
	shared := sync.OnceValue(func() int { return l.shared(ctx) })
	if l.pulls(known, shared) {
		temporary, sent, err = l.pullProven(ctx)
		if errors.Is(err, errUnreached) {
			l.unreached.Store(true)
		}
		if err == nil || l.way == Pull || !isCurable(err) {
			return temporary, sent, err
		}
	}
	if l.daemon.containerd && l.img.Recompressed() {
		temporary = l.img.Carrier().Digest.String() // the archive has it beside the root
	}
	again, err := l.sendProven(ctx, shared(), known)
	return temporary, sent + again, err
}

// pulls says whether to try a pull. Its name is all that holds the image at first, so that one that the daemon knows already,
// or will have no name for, is sent. Of a classic store, a pull gets all layers but those that were pulled before, while an
// archive can do without all the first ones that are there.
func (l load) pulls(known bool, shared func() int) bool {
	nameless := !l.daemon.containerd && l.img.Reference().Tag() == ""
	switch {
	case l.way == Archive, known, nameless, l.tooOldForZstd():
		return false
	case l.way == Pull:
		return true
	}
	all := sizeFrom(l.img, 0)
	switch {
	case l.unreached.Load():
		return false
	case l.daemon.containerd:
		return all >= worthContainerd
	case all < worthClassic:
		return false
	default:
		first := shared()
		rest := sizeFrom(l.img, first)
		return rest >= all/4*3 || rest >= worthClassic && l.pulled.has(l.served()[:first])
	}
}

// isCurable says whether an archive may work where a pull failed.
func isCurable(err error) bool {
	if said, ok := errors.AsType[*engineError](err); ok && !said.gone && !said.final {
		return true
	}
	return errors.Is(err, errUnreached) || errors.Is(err, errJoined) || errors.Is(err, errAbsent) || errors.Is(err, errBroken) || errors.Is(err, image.ErrPacked)
}
