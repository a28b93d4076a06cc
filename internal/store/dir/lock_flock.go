//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package dir

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// tryLock takes the lock of f, which ends with f and with the process. It does not wait: a lock that is taken is
// errLocked, a file system without locks is errors.ErrUnsupported.
func tryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return errLocked
	}
	return fmt.Errorf("%w: locking: %w", errors.ErrUnsupported, err)
}
