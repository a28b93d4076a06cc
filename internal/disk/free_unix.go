//go:build linux || darwin

package disk

import "syscall"

// Free is what root may still write to the file system of path, in bytes; false where it can't be told.
func Free(path string) (bytes int64, ok bool) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(path, &stat); err != nil {
		return 0, false
	}
	return int64(stat.Bfree) * int64(stat.Bsize), true
}
