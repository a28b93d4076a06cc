//go:build !unix

package socket

import "io/fs"

// owner is unknown where files have no uid and gid.
func owner(fs.FileInfo) (uid, gid string) { return "?", "?" }
