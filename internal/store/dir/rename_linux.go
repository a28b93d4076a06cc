package dir

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// renameNew renames a file within dir to a name that must be free, in one step. A name that is taken is fs.ErrExist, a
// file system that can't is errors.ErrUnsupported (renameat2(2): EINVAL, or ENOSYS from an old kernel).
func renameNew(dir *os.File, from, to string) error {
	fd := int(dir.Fd())
	err := unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%w: renaming without replacing: %w", errors.ErrUnsupported, err)
	}
	return err
}
