//go:build unix

package socket

import (
	"io/fs"
	"strconv"
	"syscall"
)

// owner is the uid and the gid that a file belongs to, in decimal, or "?".
func owner(info fs.FileInfo) (uid, gid string) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "?", "?"
	}
	return strconv.FormatUint(uint64(stat.Uid), 10), strconv.FormatUint(uint64(stat.Gid), 10)
}
