package podman

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/pullonce/pullonce/internal/disk"
	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/target"
)

// load is the loading of one image.
type load struct {
	*program
	img image.Image
}

// Load implements target.Target. The image is sent without its tag and named once it is known to be there.
func (p *program) Load(ctx context.Context, img image.Image) (target.Result, error) {
	known, err := p.about(ctx)
	if err != nil {
		return target.Result{}, err
	}
	if err := target.Runs(img, known.platform); err != nil {
		return target.Result{}, err
	}
	unlockImage, err := p.images.Lock(ctx, img.Config().Digest.String())
	if err != nil {
		return target.Result{}, err
	}
	defer unlockImage()
	unlockName, err := p.names.Lock(ctx, cmp.Or(img.Reference().Tagged(), img.Reference().String()))
	if err != nil {
		return target.Result{}, err
	}
	defer unlockName()
	result, err := load{program: p, img: img}.run(ctx, known)
	if err != nil {
		return target.Result{Sent: result.Sent}, err
	}
	return result, nil
}

func (l load) run(ctx context.Context, known about) (result target.Result, err error) {
	missing, err := l.missing(ctx)
	if err != nil || missing == "" {
		return target.Result{Outcome: target.Present}, err
	}
	_, err = l.find(ctx, l.id())
	held := err == nil
	if err != nil && !errors.Is(err, errAbsent) {
		return result, err
	}
	result.Outcome = target.Tagged
	if tagged := l.img.Reference().Tagged(); held && missing == tagged {
		if result.Replaced, err = l.name(ctx, true); !errors.Is(err, errAbsent) {
			return result, err
		}
		// It is held without its root, whose digest the pin wants: from an archive that had none.
	}
	result.Outcome = target.Loaded
	if result.Sent, err = l.send(ctx, known, held); err != nil {
		return result, err
	}
	result.Replaced, err = l.name(ctx, held)
	return result, err
}

// id is what podman calls the image: the digest of its config, without the algorithm.
func (l load) id() string { return l.img.Config().Digest.Encoded() }

// references are what must answer to the image when all is done.
func (l load) references() []string {
	ref := l.img.Reference()
	var refs []string
	if ref.Tag() != "" {
		refs = append(refs, ref.Tagged())
	}
	if ref.Digest() != "" {
		refs = append(refs, ref.WithDigest(ref.Digest()))
	}
	return refs
}

// missing is the first reference that does not answer to the image, or "".
func (l load) missing(ctx context.Context) (string, error) {
	for _, ref := range l.references() {
		id, err := l.find(ctx, ref)
		switch {
		case errors.Is(err, errAbsent), err == nil && id != l.id():
			return ref, nil
		case err != nil:
			return ref, err
		}
	}
	return "", nil
}

// send loads the image and proves that podman has it. One that podman did not hold before is removed on an error.
func (l load) send(ctx context.Context, known about, held bool) (sent int64, err error) {
	if err := disk.Room(known.temp, 2*l.img.Size()); err != nil { // podman keeps the archive, and takes it apart beside it
		return 0, err
	}
	if err := disk.Room(known.root, l.img.Size()); err != nil {
		return 0, err
	}
	sending := l.img
	if l.img.Reference().Tag() != "" {
		if sending, err = l.img.Unnamed(); err != nil {
			return 0, err
		}
	}
	sent, err = l.load(ctx, sending)
	if err == nil {
		if _, err = l.find(ctx, l.id()); errors.Is(err, errAbsent) {
			err = fmt.Errorf("podman reported success, but %w", err)
		}
	}
	if err != nil && !held {
		l.cleanUp(ctx, l.id())
	}
	return sent, err
}

// name gives the image its tag, if the pin has one, and proves that every reference answers to it. Another image that
// had the tag is returned; on an error it has it again. An image that podman did not hold before is then removed.
func (l load) name(ctx context.Context, held bool) (replaced string, err error) {
	tagged := l.img.Reference().Tagged()
	before := ""
	if tagged != "" {
		before, err = l.find(ctx, tagged)
		if err != nil && !errors.Is(err, errAbsent) {
			return "", err
		}
		err = l.tag(ctx, l.id(), tagged)
	}
	if err == nil {
		err = l.prove(ctx)
	}
	if err != nil {
		l.undo(ctx, tagged, before)
		if !held {
			l.cleanUp(ctx, l.id())
		}
		return "", err
	}
	if before != "" && before != l.id() {
		replaced = "sha256:" + before
	}
	return replaced, nil
}

// prove holds every reference to the image.
func (l load) prove(ctx context.Context) error {
	for _, ref := range l.references() {
		id, err := l.find(ctx, ref)
		switch {
		case err != nil:
			return fmt.Errorf("podman reported success, but %w", err)
		case id != l.id():
			return fmt.Errorf("podman reported success, but %s is %s", ref, id)
		}
	}
	return nil
}

// undo gives the tag back to the image that had it, or takes it away.
func (l load) undo(ctx context.Context, tagged, before string) {
	ctx, cancel := target.Cleaning(ctx)
	defer cancel()
	now, err := l.find(ctx, tagged)
	switch {
	case tagged == "" || err != nil || now == before || now != l.id():
	case before != "":
		_ = l.tag(ctx, before, tagged)
	default:
		_ = l.untag(ctx, l.id(), tagged)
	}
}

// cleanUp removes what the load left. It has failed already, so that what fails here has nobody to tell.
func (l load) cleanUp(ctx context.Context, ref string) {
	ctx, cancel := target.Cleaning(ctx)
	defer cancel()
	_ = l.remove(ctx, ref)
}
