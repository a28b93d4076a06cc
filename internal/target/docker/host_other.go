//go:build !linux && !darwin

package docker

import "io/fs"

// owner is unknown where files have no uid and gid.
func owner(fs.FileInfo) (uid, gid string) { return "?", "?" }

// freeSpace can't be told.
func freeSpace(string) (bytes int64, ok bool) { return 0, false }
