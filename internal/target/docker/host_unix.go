//go:build linux || darwin

package docker

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

// freeSpace is what root may still write to the file system of path, in bytes; false where it can't be told.
func freeSpace(path string) (bytes int64, ok bool) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(path, &stat); err != nil {
		return 0, false
	}
	return int64(stat.Bfree) * int64(stat.Bsize), true
}
