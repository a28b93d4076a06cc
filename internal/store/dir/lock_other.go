//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package dir

import (
	"errors"
	"os"
)

// tryLock knows no lock on this system.
func tryLock(*os.File) error { return errors.ErrUnsupported }
