//go:build unix

package keep

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// owned is a file of another user.
type owned struct{ uid uint32 }

func (owned) Name() string       { return "" }
func (owned) Size() int64        { return 0 }
func (owned) Mode() fs.FileMode  { return 0o600 }
func (owned) ModTime() time.Time { return time.Time{} }
func (owned) IsDir() bool        { return false }
func (o owned) Sys() any         { return &syscall.Stat_t{Uid: o.uid} }

func TestOnlyOurOwnFilesAreOurs(t *testing.T) {
	t.Parallel()
	require.True(t, ours(owned{uint32(os.Geteuid())}))
	require.False(t, ours(owned{uint32(os.Geteuid()) + 1}))
}
