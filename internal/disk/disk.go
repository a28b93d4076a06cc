// Package disk owns whether a file system has room, asked before it is written to. It does not know what for.
package disk

import (
	"fmt"

	"github.com/pullonce/pullonce/internal/oneline"
)

// Room refuses what takes need bytes at path and would not fit, with the numbers. Where the file system can't be asked,
// as one that is not of this machine, everything fits.
func Room(path string, need int64) error {
	if path == "" {
		return nil
	}
	free, ok := Free(path)
	if !ok {
		return nil
	}
	return enough(path, need, free)
}

func enough(path string, need, free int64) error {
	if free >= need {
		return nil
	}
	return fmt.Errorf("there would be no space left on device: at least %s are needed, %s are free at %s", megabytes(need), megabytes(free), oneline.Of(path))
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
