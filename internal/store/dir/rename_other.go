//go:build !linux

package dir

import (
	"errors"
	"os"
)

// renameNew is not to be had on this system.
func renameNew(*os.File, string, string) error { return errors.ErrUnsupported }
