//go:build unix

package keep

import (
	"io/fs"
	"os"
	"syscall"
)

// openFlags keep a link from leading elsewhere, and a pipe from waiting.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// ours says whether a file belongs to the user of this process.
func ours(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
