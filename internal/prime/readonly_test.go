package prime_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/prime"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/registry"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/retry"
	"github.com/pullonce/pullonce/internal/store"
)

// guarded is a store that says beforehand that it can't be written, or finds out when it is tried.
type guarded struct {
	store.Store
	known bool
}

func (s guarded) Writable(context.Context) (bool, string) { return !s.known, "the token may only read" }

func (s guarded) Save(context.Context, string, image.Image) error {
	return fmt.Errorf("saving: %w: cache write denied", store.ErrReadOnly)
}

func TestReadOnlyStorePassesWhereEveryEntryIsThere(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7")
	require.Equal(t, report.Success, prime.Run(t.Context(), b.options).Result)
	b.options.Store = guarded{b.store, true}
	got := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Success, got.Result)
	require.Empty(t, got.Problems)
}

func TestReadOnlyStoreIsKnownBeforeAnythingIsPulled(t *testing.T) {
	t.Parallel()
	for onReadOnly, want := range map[prime.OnReadOnly]struct {
		result   report.Result
		severity report.Severity
	}{
		prime.FailReadOnly: {report.Failure, report.Error},
		prime.WarnReadOnly: {report.Degraded, report.Warning},
	} {
		t.Run(string(onReadOnly), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "redis:7")
			b.options.Store, b.options.OnReadOnly = guarded{b.store, true}, onReadOnly
			got := prime.Run(t.Context(), b.options)
			require.Equal(t, want.result, got.Result)
			require.Len(t, got.Problems, 1)
			require.Equal(t, want.severity, got.Problems[0].Severity)
			require.Contains(t, got.Problems[0].Message, "the token may only read")
			require.Empty(t, b.registry.Log(), "nothing is pulled for nothing")
		})
	}
}

func TestStoreThatTurnsOutReadOnlyIsTreatedAlike(t *testing.T) {
	t.Parallel()
	b := newBench(t, "redis:7")
	b.options.Store, b.options.OnReadOnly = guarded{b.store, false}, prime.WarnReadOnly
	got := prime.Run(t.Context(), b.options)
	require.Equal(t, report.Degraded, got.Result)
	require.Equal(t, "read-only", got.Problems[0].Kind)
}

// secretive is a registry client that was asked for credentials.
type secretive struct {
	prime.Registry
	public bool
}

func (s secretive) Pull(ctx context.Context, ref reference.Reference, p platform.Platform) (*registry.Pull, error) {
	pull, err := s.Registry.Pull(ctx, ref, p)
	if err == nil {
		pull.Authenticated = true
	}
	return pull, err
}

func (s secretive) Public(context.Context, reference.Reference) (bool, error) { return s.public, nil }

func TestPrivateImageIsNotPutWhereStrangersRead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		public, exposed bool
		want            report.Result
	}{
		"a private image in an exposed store": {false, true, report.Failure},
		"a public image with credentials":     {true, true, report.Success},
		"a private image in a private store":  {false, false, report.Success},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "redis:7")
			b.options.Registry = secretive{b.client(t, retry.Policy{Timeout: time.Minute}), test.public}
			b.options.Exposed = test.exposed
			got := prime.Run(t.Context(), b.options)
			require.Equal(t, test.want, got.Result, got.Problems)
			if test.want == report.Failure {
				require.Contains(t, got.Problems[0].Message, "allow-private")
				_, err := b.store.Stat(t.Context(), b.options.Items[0].Key)
				require.ErrorIs(t, err, store.ErrNotFound)
			}
		})
	}
}
