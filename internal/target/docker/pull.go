package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/target"
	"github.com/pullonce/pullonce/internal/target/loopback"
)

// How long a containerd store may take to end a pull that can't go on, before that is cancelled.
const (
	endTime    = 500 * time.Millisecond
	forgetTime = 5 * time.Second // where it may have got wrong bytes
)

// errUnreached says that the daemon does not get through to this process: it is on another machine, or in a network of its
// own, or may not pull.
var errUnreached = errors.New("the daemon does not reach this process")

// errJoined says that the daemon waits for somebody else's download of a layer, which has broken.
var errJoined = errors.New("the daemon waits for another program's download of a layer, which broke")

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
	if err == nil {
		l.pulled.add(l.served())
	}
	if err != nil && temporary != "" {
		l.cleanUp(ctx, temporary)
		temporary = ""
	}
	if errors.Is(err, image.ErrVerify) && l.daemon.containerd {
		l.collect(ctx)
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
	registry, err := loopback.Serve(ctx, l.img, loopback.Options{
		Plain: l.plain(), Sort: l.daemon.containerd, Fail: fail, Layer: watch.layer,
	})
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

// plain says whether the daemon gets layers unpacked. A classic store keeps nothing else of them, and takes longer to unpack
// gzip, one layer after the other, than anything else: this process unpacks the next one meanwhile. That makes 260 MB in 6.0 s
// where packed layers take 7.0. With zstd, which the daemon unpacks fast, it is 5.6 packed and 6.1 unpacked.
func (l load) plain() bool {
	return !l.daemon.containerd && !l.img.Recompressed() && l.img.HasContent()
}

// postPull is one pull request and its answer. At the end of ctx a containerd store is left the time to end the pull by
// itself: what it has of a layer is garbage then, while after a request that was cancelled it keeps that for hours, and the
// next pull, whosever it is, goes on with it, whatever bytes these are.
func (l load) postPull(ctx context.Context, name string, watch *watch) error {
	asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		defer cancel()
		if !l.daemon.containerd {
			return
		}
		grace := endTime
		if errors.Is(context.Cause(ctx), image.ErrRead) {
			grace = forgetTime
		}
		select {
		case <-time.After(grace):
		case <-asking.Done():
		}
	})()

	watch.wait(true)
	answer, err := l.api.ImagePull(asking, name, client.ImagePullOptions{})
	if err != nil {
		return daemonError(err)
	}
	err = readAnswer(heard{watch, answer}, maxAnswer, l.progress)
	return errors.Join(err, answer.Close())
}

// What an engine says of a layer (moby, daemon/internal/distribution): that it is pulled and unpacked, and that a download
// broke and begins anew after some seconds.
const (
	layerComplete = "Pull complete"
	layerRetried  = "Retrying in "
)

// progress takes what the daemon says of a layer. One download serves all pulls of a layer, whosever registry they name: one
// that breaks, while nothing is wrong here, is that of a program which has ended.
func (l load) progress(status, layer string) error {
	switch {
	case status == layerComplete:
		l.complete(layer)
	case strings.HasPrefix(status, layerRetried):
		return errJoined
	}
	return nil
}

// complete takes the short id of a layer that the daemon has pulled and unpacked, and so all below it.
func (l load) complete(id string) {
	i := slices.IndexFunc(l.img.Layers(), func(layer image.Layer) bool { return strings.HasPrefix(layer.Descriptor.Digest.Encoded(), id) })
	if i >= 0 && id != "" {
		l.unpacked(i + 1)
	}
}

// collect has a containerd store forget what it got of a pull that is over. It collects garbage when it thinks fit, but at once
// where an image loses its last name (moby, daemon/containerd/image_delete.go), so it is given one without layers for that.
func (l load) collect(ctx context.Context) {
	ctx, cancel := target.Cleaning(ctx)
	defer cancel()
	img, err := l.img.Unnamed()
	if err == nil {
		img, err = target.Apart(img)
	}
	if err != nil {
		return
	}
	_, _ = l.send(ctx, img, len(img.Layers())) // it says that layers are missing
	l.cleanUp(ctx, img.Root().Digest.String())
	if img.Recompressed() {
		l.cleanUp(ctx, img.Carrier().Digest.String())
	}
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
