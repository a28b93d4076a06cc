package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/target"
)

// Namespace is one namespace of a containerd, into which images are loaded. Safe for concurrent use.
type Namespace struct {
	Client
	// Room refuses an image that takes need bytes where containerd keeps its data; nil is no bound.
	Room func(ctx context.Context, about About, need int64) error
	// PartSize is the least, in bytes, that an image is cut into, so that it is unpacked while it is sent; 0 is 16 MiB.
	PartSize int64
	// images and names serialise what two loads of this process would do to one image or to one name.
	images, names target.Locks
	expected      expected
	queue         queue
	underway      underway
	abandoned     abandoned
}

// Load makes img answer to its names: repository and tag, and the repository with the digests of root and manifest. The
// kubelet looks an image up by name, and nothing holds a name's target to the digest in it, so that an image is named
// only once it is known to be whole: first by its root, which can't take another's place, then by the rest.
func (n *Namespace) Load(ctx context.Context, img image.Image) (target.Result, error) {
	return n.Announce(img)(ctx, img)
}

// Announce says that img is about to be loaded, and gives what loads it, which is to be called once. Of images that are
// loaded at once, the layers that they have in common are brought by the one that was announced first.
func (n *Namespace) Announce(img image.Image) (load func(context.Context, image.Image) (target.Result, error)) {
	t := n.queue.enter(img)
	return func(ctx context.Context, img image.Image) (target.Result, error) {
		defer n.queue.leave(t)
		return n.load(ctx, img, t)
	}
}

func (n *Namespace) load(ctx context.Context, img image.Image, t *ticket) (target.Result, error) {
	about, err := n.About(ctx)
	if err != nil {
		return target.Result{}, err
	}
	if err := target.Runs(img, about.Platform); err != nil {
		return target.Result{}, err
	}
	unlockImage, err := n.images.Lock(ctx, img.Manifest().Digest.String())
	if err != nil {
		return target.Result{}, err
	}
	defer unlockImage()
	unlockName, err := n.names.Lock(ctx, cmp.Or(img.Reference().Tagged(), img.Reference().String()))
	if err != nil {
		return target.Result{}, err
	}
	defer unlockName()
	l := &load{Namespace: n, img: img, ticket: t}
	return l.run(ctx, about)
}

// leastPart is PartSize, or its default.
func (n *Namespace) leastPart() int64 { return cmp.Or(n.PartSize, partSize) }

// load is the loading of one image.
type load struct {
	*Namespace
	img    image.Image
	ticket *ticket
	// blobs are those of its layers that are there; nil is not known.
	blobs []digest.Digest
	// made are the names that it may have given, and takes away again where it fails; temporary those of its parts, and of what
	// earlier loads left.
	made, temporary []string
}

func (l *load) run(ctx context.Context, about About) (result target.Result, err error) {
	before, err := l.before(ctx)
	if err != nil {
		return result, err
	}
	wanted := before.lacking(l.wanted())
	if len(wanted) == 0 {
		return target.Result{Outcome: target.Present}, nil
	}
	defer func() {
		if err != nil {
			result = target.Result{Sent: result.Sent}
			l.remove(ctx, append(before.absent(l.made), l.temporary...))
		}
	}()
	source := before.whole(l.ids())
	if source != "" {
		result.Outcome = target.Tagged
	} else {
		result.Outcome = target.Loaded
		if result.Sent, err = l.bring(ctx, about); err != nil {
			return result, l.aboutLayers(err)
		}
		source = l.byRoot()
		wanted = slices.DeleteFunc(wanted, func(name string) bool { return name == source })
	}
	held, err := l.name(ctx, source, wanted)
	if err != nil && before.expected && result.Outcome == target.Tagged && ctx.Err() == nil {
		return l.run(ctx, about) // it went since that was asked
	}
	if err != nil {
		return result, err
	}
	result.Replaced = before.other(l.img.Reference().Tagged(), l.ids())
	return result, l.prove(held, l.wanted())
}

// name gives the image called source its other names, while those of its parts go, and says what is there then.
func (l *load) name(ctx context.Context, source string, names []string) ([]Held, error) {
	var tidying sync.WaitGroup
	tidying.Go(func() { l.remove(ctx, l.temporary) })
	defer tidying.Wait()
	l.made = append(l.made, names...)
	return l.Tag(ctx, Tagging{Source: source, Names: names, Then: l.query()})
}

// aboutLayers says of a failure whether the image as its registry has it may help.
func (l *load) aboutLayers(err error) error {
	if failed, ok := errors.AsType[*ClientError](err); ok && l.img.Recompressed() && isUnknownLayer(complaint(failed.Cause)) {
		return fmt.Errorf("%w: %w", target.ErrRecompressed, err)
	}
	return err
}

// prove holds names to the whole image, by what is there now.
func (l *load) prove(held []Held, names []string) error {
	now := found{held: held, ids: l.ids()}
	for _, name := range now.lacking(names) {
		held, ok := now.named(name)
		switch {
		case !ok:
			return unprovenError(name + " is not there")
		case !slices.Contains(now.ids, held.Target):
			return unprovenError(name + " is " + oneline.Of(held.Target.String()))
		default:
			return unprovenError(name + " is " + oneline.Of(held.State))
		}
	}
	return nil
}

// unprovenError is what is wrong with an image after a load that went well.
type unprovenError string

// Error implements error.
func (e unprovenError) Error() string { return "containerd reported success, but " + string(e) }

// remove takes away names that nobody is to see. What fails here has nobody to tell: the load is done, or has failed already.
func (l *load) remove(ctx context.Context, names []string) {
	if len(names) == 0 {
		return
	}
	ctx, cancel := target.Cleaning(ctx)
	defer cancel()
	_ = l.Remove(ctx, names)
}

// ids are the digests of what the names may stand for: root and manifest, whose layers are the registry's own, or, where
// others are at hand, the manifest that lists those.
func (l *load) ids() []digest.Digest {
	ids := l.digests()
	if carrier := l.img.Carrier().Digest; !slices.Contains(ids, carrier) {
		ids = append(ids, carrier)
	}
	return ids
}

// digests are those that a pin may have.
func (l *load) digests() []digest.Digest {
	root, manifest := l.img.Root().Digest, l.img.Manifest().Digest
	if root == manifest {
		return []digest.Digest{root}
	}
	return []digest.Digest{root, manifest}
}

// wanted are the names that the image must answer to.
func (l *load) wanted() []string {
	var names []string
	if tagged := l.img.Reference().Tagged(); tagged != "" {
		names = append(names, tagged)
	}
	for _, id := range l.digests() {
		names = append(names, l.img.Reference().WithDigest(id))
	}
	return names
}

func (l *load) byRoot() string { return l.img.Reference().WithDigest(l.img.Root().Digest) }

// kubelets is the name by which containerd's CRI plugin refers to an image: it makes it for each one that it is told of
// (containerd, internal/cri/server/images), and would keep it of one that we take back.
func (l *load) kubelets() string { return l.img.Config().Digest.String() }

// names are all that the image has or may get.
func (l *load) names() []string { return append(l.wanted(), l.byRoot(), l.kubelets()) }

// query asks for everything that is known of the image.
func (l *load) query() Query { return Query{Names: l.names(), Targets: l.ids()} }

// before is what is known of the image before it is loaded.
func (l *load) before(ctx context.Context) (found, error) {
	if known, ok := l.expected.take(l.img); ok {
		l.blobs = known.blobs
		return found{held: known.held, ids: l.ids(), expected: true}, nil
	}
	held, err := l.Find(ctx, l.query())
	return found{held: held, ids: l.ids()}, err
}

// found is what a containerd has of an image.
type found struct {
	held []Held
	ids  []digest.Digest
	// expected says that it was asked some time before.
	expected bool
}

func (f found) named(name string) (Held, bool) {
	i := slices.IndexFunc(f.held, func(h Held) bool { return h.Name == name })
	if i < 0 {
		return Held{}, false
	}
	return f.held[i], true
}

// lacking are those of names that do not answer to the whole image.
func (f found) lacking(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		h, ok := f.named(name)
		return ok && h.Whole && slices.Contains(f.ids, h.Target)
	})
}

// absent are those of names that nothing answers to, each once.
func (f found) absent(names []string) []string {
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		_, ok := f.named(name)
		return ok
	})
}

// whole is a name under which the whole image is there, the root's own if there is a choice; "" is none.
func (f found) whole(ids []digest.Digest) string {
	for _, id := range ids {
		for _, h := range f.held {
			if h.Whole && h.Target == id {
				return h.Name
			}
		}
	}
	return ""
}

// other is the digest of another image under the name, or "".
func (f found) other(name string, ids []digest.Digest) string {
	if h, ok := f.named(name); ok && !slices.Contains(ids, h.Target) {
		return h.Target.String()
	}
	return ""
}
