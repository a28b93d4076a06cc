package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/target"
)

// load is the loading of one image into one daemon.
type load struct {
	*Docker
	daemon daemon
	img    image.Image
	// unpacked is told how many of its first layers are unpacked.
	unpacked func(layers int)
}

// Load implements target.Target. The image is sent without its tag and named once it is known to be whole, so that a
// load that breaks, even one whose daemon is killed, leaves another image's name where it was.
func (d *Docker) Load(ctx context.Context, img image.Image) (target.Result, error) {
	return d.LoadTelling(ctx, img, func(int) {})
}

// LoadTelling implements target.Teller, as far as the image is pulled and the daemon says what it does.
func (d *Docker) LoadTelling(ctx context.Context, img image.Image, unpacked func(layers int)) (target.Result, error) {
	known, err := d.daemon(ctx)
	if err != nil {
		return target.Result{}, err
	}
	l := load{Docker: d, daemon: known, img: img, unpacked: unpacked}
	result, err := l.run(ctx)
	switch {
	case err == nil:
		return result, nil
	case !errors.Is(err, target.ErrUnavailable):
		err = fmt.Errorf("loading %s into Docker: %w", img.Reference().Familiar(), err)
	}
	return target.Result{Sent: result.Sent}, err
}

func (l load) run(ctx context.Context) (target.Result, error) {
	unlock, err := l.images.Lock(ctx, l.img.Manifest().Digest.String())
	if err != nil {
		return target.Result{}, err
	}
	defer unlock()

	result := target.Result{Outcome: target.Present}
	missing, err := l.missing(ctx)
	if err != nil {
		return result, l.early(ctx, err)
	}
	if missing != "" {
		if result, err = l.provide(ctx); err != nil {
			return result, err
		}
	}
	result.Unresolvable, err = l.unresolvable(ctx)
	return result, err
}

// early tells a daemon that was never there for this image from one that went away meanwhile.
func (l load) early(ctx context.Context, err error) error {
	if isGone(err) {
		return l.unavailable(ctx, err)
	}
	return err
}

// provide gets the image into the daemon as far as it isn't there, and makes it answer.
func (l load) provide(ctx context.Context) (target.Result, error) {
	result := target.Result{Outcome: target.Tagged}
	byDigest := l.img.Reference().Tag() == ""
	held, err := l.held(ctx)
	known := err == nil || errors.Is(err, errBroken)
	if !known && !errors.Is(err, errAbsent) {
		return result, l.early(ctx, err)
	}
	if held == "" || byDigest {
		var temporary string
		held, result.Outcome = l.ids()[0], target.Loaded
		temporary, result.Sent, err = l.bring(ctx, known)
		if temporary != "" {
			defer l.cleanUp(ctx, temporary)
		}
		if err != nil {
			return result, err
		}
	}
	if byDigest {
		return result, nil
	}
	if result.Replaced, err = l.name(ctx, held); err != nil && !known {
		l.cleanUp(ctx, held)
	}
	return result, err
}

// ids are what the daemon may call this very image, its own choice first. A reference with a digest is held to it.
func (l load) ids() []string {
	root, manifest := l.img.Root().Digest, l.img.Manifest().Digest
	switch {
	case !l.daemon.containerd:
		return []string{l.img.Config().Digest.String()}
	case root == manifest || l.img.Reference().Digest() != "":
		return []string{root.String()}
	default:
		return []string{root.String(), manifest.String()}
	}
}

// references are what must answer to the image when all is done.
func (l load) references() []string {
	ref := l.img.Reference()
	var refs []string
	if ref.Tag() != "" {
		refs = append(refs, ref.Tagged())
	}
	switch {
	case l.daemon.containerd && ref.Digest() != "":
		refs = append(refs, ref.WithDigest(ref.Digest()))
	case ref.Tag() == "":
		refs = append(refs, l.ids()[0])
	}
	return refs
}

// missing is the first reference that does not answer to the whole image, or "".
func (l load) missing(ctx context.Context) (string, error) {
	for _, ref := range l.references() {
		err := l.check(ctx, ref)
		switch {
		case errors.Is(err, errAbsent), errors.Is(err, errOther), errors.Is(err, errBroken):
			return ref, nil
		case err != nil:
			return ref, err
		}
	}
	return "", nil
}

// check holds ref to the image: it must answer (else errAbsent), be the image (else errOther) and be whole (else
// errBroken).
func (l load) check(ctx context.Context, ref string) error {
	found, err := l.find(ctx, ref, l.img)
	if err != nil {
		return err
	}
	if !slices.Contains(l.ids(), found.id) {
		return fmt.Errorf("%s is %s, %w", ref, found.id, errOther)
	}
	return found.broken
}

// held is the id under which the daemon holds the whole image, by whatever name. One that it holds in part is
// errBroken, none is errAbsent.
func (l load) held(ctx context.Context) (string, error) {
	missing := errAbsent
	for _, id := range l.ids() {
		err := l.check(ctx, id)
		switch {
		case err == nil:
			return id, nil
		case errors.Is(err, errBroken):
			missing = errBroken
		case !errors.Is(err, errAbsent):
			return "", err
		}
	}
	return "", missing
}

// unresolvable lists the reference with a digest where the daemon can't answer to it: its classic store learns digests
// from registries alone.
func (l load) unresolvable(ctx context.Context) ([]string, error) {
	ref := l.img.Reference()
	if l.daemon.containerd || ref.Digest() == "" {
		return nil, nil
	}
	err := l.check(ctx, ref.WithDigest(ref.Digest()))
	if errors.Is(err, errAbsent) || errors.Is(err, errOther) {
		return []string{ref.String()}, nil
	}
	return nil, err
}

// name moves the tag to the image that the daemon holds as id, and proves that every reference answers to it. Another
// image that had the tag is returned; on an error it has it again.
func (l load) name(ctx context.Context, id string) (replaced string, err error) {
	tagged := l.img.Reference().Tagged()
	unlock, err := l.names.Lock(ctx, tagged)
	if err != nil {
		return "", err
	}
	defer unlock()

	before, err := l.find(ctx, tagged, l.img)
	if err != nil && !errors.Is(err, errAbsent) {
		return "", err
	}
	if err = l.tag(ctx, id, tagged); err == nil {
		err = l.prove(ctx)
	}
	if err != nil {
		l.undo(ctx, tagged, before.id)
		return "", err
	}
	if before.id != "" && !slices.Contains(l.ids(), before.id) {
		replaced = before.id
	}
	return replaced, nil
}

// prove holds every reference to the image.
func (l load) prove(ctx context.Context) error {
	for _, ref := range l.references() {
		if err := l.check(ctx, ref); err != nil {
			return fmt.Errorf("the load was done, but %w", err)
		}
	}
	return nil
}

// short is the part of an id that the docker command shows.
func short(id string) string {
	d := digest.Digest(id)
	if d.Validate() != nil {
		return oneline.Of(id)
	}
	return d.Encoded()[:12]
}
