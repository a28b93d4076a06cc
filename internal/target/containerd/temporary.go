package containerd

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullonce/pullonce/internal/reference"
)

// The parts of an image have names while the image is loaded, so that their content is kept until it has its own. They are
// below a domain that nobody can have (RFC 2606, section 2), and tell when they were made and by which load.
const (
	partRepository = "pullonce.invalid/part/"
	// abandonedAfter is the age at which a part is one of a load that was killed.
	abandonedAfter = time.Hour
)

// newPartName is the repository of the parts of one load.
func newPartName() (reference.Reference, error) {
	return reference.Parse(partRepository + strconv.FormatInt(time.Now().Unix(), 10) + "-" + strings.ToLower(rand.Text()))
}

// isAbandoned says whether a name is that of a part that nobody will take away any more.
func isAbandoned(name string) bool {
	rest, ok := strings.CutPrefix(name, partRepository)
	seconds, _, dash := strings.Cut(rest, "-")
	made, err := strconv.ParseInt(seconds, 10, 64)
	return ok && dash && err == nil && time.Since(time.Unix(made, 0)) > abandonedAfter
}

// abandoned are the names that loads left which were killed, with those that the CRI plugin has given to the same images.
// They are looked for until that succeeds once, and go with the first load that takes them. The zero value works.
type abandoned struct {
	looked atomic.Bool
	mu     sync.Mutex
	names  []string
}

func (a *abandoned) look(ctx context.Context, client Stager) {
	if a.looked.Swap(true) {
		return
	}
	names, err := abandonedIn(ctx, client)
	if err != nil {
		a.looked.Store(false)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names = names
}

func (a *abandoned) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := a.names
	a.names = nil
	return names
}

func abandonedIn(ctx context.Context, client Stager) ([]string, error) {
	names, err := client.Named(ctx, partRepository)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !isAbandoned(name) })
	var digests []digest.Digest
	for _, name := range names {
		if _, sum, ok := strings.Cut(name, "@"); ok {
			digests = append(digests, digest.Digest(sum))
		}
	}
	if len(digests) == 0 {
		return names, nil
	}
	same, err := client.Names(ctx, digests)
	if err != nil {
		return nil, err
	}
	ids := slices.DeleteFunc(same, func(name string) bool { return !strings.HasPrefix(name, digest.SHA256.String()+":") })
	return append(names, ids...), nil
}
