// Package target owns the contract of what an image is loaded into. Its back ends are the packages below it. It does
// not know registries, stores or keys.
package target

import (
	"context"
	"errors"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/platform"
)

// ErrUnavailable says that there is nothing to load into: no daemon answers, or the system has none. It is the same
// for every image of a lane, so a lane says it once.
var ErrUnavailable = errors.New("target unavailable")

// ErrRecompressed says that a target can't do with recompressed layers what it must: the image as its registry has it may
// help.
var ErrRecompressed = errors.New("no layers recompressed with zstd")

// Outcome is what a load came to.
type Outcome string

// The outcomes of a load that succeeded.
const (
	Present Outcome = "present" // the same image was there under the name: nothing was sent
	Tagged  Outcome = "tagged"  // the same image was there under another name: nothing was sent
	Loaded  Outcome = "loaded"  // the image was sent
	Found   Outcome = "found"   // there is no target: the image is known to be in the store
)

// Result tells what a load did.
type Result struct {
	Outcome Outcome
	// Replaced is the id of another image that stood under the name before, or "".
	Replaced string
	// Unresolvable are references of the image that this target can never answer to, such as repo@digest on Docker's
	// classic store, in canonical form.
	Unresolvable []string
	// Sent is how many bytes went to the target.
	Sent int64
}

// Target is one place that a lane loads images into. Safe for concurrent use.
type Target interface {
	// Platform asks the target for the platform of its images. Nothing there to ask is ErrUnavailable.
	Platform(ctx context.Context) (platform.Platform, error)
	// Load makes img answer to its reference and proves that it does. What is already there is not sent again, and no
	// layer of it is read. On an error the names that the load made are gone again. Nothing there to load into is
	// ErrUnavailable; bytes that fail their verification are image.ErrVerify; a recompressed image that it can't take is
	// ErrRecompressed.
	Load(ctx context.Context, img image.Image) (Result, error)
}

// Selector is a Target with parts that an image may be meant for, as a cluster has nodes.
type Selector interface {
	Target
	// Only is the target narrowed down to some of its parts, each by name or by role. Whether there are such parts turns
	// out in Load.
	Only(parts []string) Target
}

// Preparer is a Target with questions to ask before its first load. While a lane waits for its store, they cost nothing.
type Preparer interface {
	Target
	// Prepare asks them, if they have not been asked. It only saves time: what goes wrong is for Load to find out.
	Prepare(ctx context.Context)
}

// Expecter is a Target that can ask about several images in one question.
type Expecter interface {
	Target
	// Expect asks about images that are about to be loaded what Load would ask about each. It only saves time: what goes
	// wrong is for Load to find out.
	Expect(ctx context.Context, images []image.Image)
}

// Teller is a Target that can tell, while it loads an image, which of its layers are unpacked.
type Teller interface {
	Target
	// Twice says whether it unpacks a layer once for each of several images that it gets at the same time. Where that is not
	// known it does not.
	Twice(ctx context.Context) bool
	// LoadTelling is Load. It tells unpacked how many of img's first layers are unpacked, as far as that can be known, and
	// never after it has returned.
	LoadTelling(ctx context.Context, img image.Image, unpacked func(layers int)) (Result, error)
}

// Unavailable is a target that is known not to be there.
type Unavailable struct {
	// Err says why; it is ErrUnavailable.
	Err error
}

var _ Target = Unavailable{}

// Platform implements Target.
func (u Unavailable) Platform(context.Context) (platform.Platform, error) {
	return platform.Platform{}, u.Err
}

// Load implements Target.
func (u Unavailable) Load(context.Context, image.Image) (Result, error) { return Result{}, u.Err }

// None is the target of those who want the outputs and nothing loaded.
type None struct{}

var _ Target = None{}

// Platform implements Target: it is the host's.
func (None) Platform(context.Context) (platform.Platform, error) { return platform.Host(), nil }

// Load implements Target: the image was opened, and so is there.
func (None) Load(context.Context, image.Image) (Result, error) { return Result{Outcome: Found}, nil }
