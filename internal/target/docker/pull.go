package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moby/moby/client"

	"github.com/pullonce/pullonce/internal/target/loopback"
)

// endTime is how long a containerd store may take to end a pull that can't go on, before that is cancelled.
const endTime = 500 * time.Millisecond

// errUnreached says that the daemon does not get through to this process: it is on another machine, or in a network of its
// own, or may not pull.
var errUnreached = errors.New("the daemon does not reach this process")

// pullProven has the daemon pull the image and proves that it holds it whole. On an error what that left there is removed;
// else the daemon has it under a temporary name, which goes once it has another.
func (l load) pullProven(ctx context.Context) (temporary string, sent int64, err error) {
	if err := l.room(0); err != nil {
		return "", 0, err
	}
	temporary, sent, err = l.pull(ctx)
	if err == nil {
		var head int64
		head, err = l.sendHead(ctx)
		sent += head
	}
	if err != nil && temporary != "" {
		l.cleanUp(ctx, temporary)
		temporary = ""
	}
	return temporary, sent, err
}

// pull serves the image to the daemon until that has pulled it. The name that it may have there now is "" where it never asked
// for anything.
func (l load) pull(parent context.Context) (name string, sent int64, err error) {
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	watch := l.watch(fail)
	defer watch.stop()
	registry, err := loopback.Serve(ctx, l.img, loopback.Options{Fail: fail, Layer: watch.layer})
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", errUnreached, err)
	}
	defer registry.Close()
	contact := time.AfterFunc(l.limits.Contact, func() {
		if !registry.Asked() {
			fail(errUnreached)
		}
	})
	defer contact.Stop()
	if err := l.postPull(ctx, registry.Reference(), watch); err != nil {
		if isSaid(err) && !registry.Asked() {
			err = fmt.Errorf("%w: %w", errUnreached, err)
		}
		fail(err)
	}
	err = context.Cause(ctx)
	if isGone(err) || isSilence(err) {
		err = fmt.Errorf("after %d bytes of an image of %d: %w", registry.Sent(), l.img.Size(), err)
	}
	if registry.Asked() {
		name = registry.Reference()
	}
	return name, registry.Sent(), err
}

// postPull is one pull request and its answer. At the end of ctx a containerd store is left a moment to end the pull by
// itself: it forgets the beginning of a layer then, while after a request that was cancelled it keeps it for hours, and the
// next pull would go on with it, whatever bytes these are.
func (l load) postPull(ctx context.Context, name string, watch *watch) error {
	asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		defer cancel()
		if !l.daemon.containerd {
			return
		}
		select {
		case <-time.After(endTime):
		case <-asking.Done():
		}
	})()

	watch.wait(true)
	answer, err := l.api.ImagePull(asking, name, client.ImagePullOptions{})
	if err != nil {
		return daemonError(err)
	}
	err = readAnswer(heard{watch, answer}, maxAnswer)
	return errors.Join(err, answer.Close())
}

// sendHead tells a containerd store what it has pulled: the root, which leads to the manifest, and the name of an image by
// digest alone. A recompressed image has its own manifest from here too.
func (l load) sendHead(ctx context.Context) (sent int64, err error) {
	img, id, err := l.sending()
	if err != nil {
		return 0, err
	}
	named := l.img.Reference().Tag() == ""
	if l.daemon.containerd && (named || l.img.Root().Digest != l.img.Carrier().Digest) {
		sent, err = l.send(ctx, img, len(img.Layers()))
	}
	if err == nil {
		err = l.arrived(ctx, id)
	}
	if err != nil {
		l.cleanUp(ctx, id)
	}
	return sent, err
}
