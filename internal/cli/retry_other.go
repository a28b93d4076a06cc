//go:build !unix

package cli

import "os"

// passedOn are the signals that retry passes on to its command.
func passedOn() []os.Signal { return []os.Signal{os.Interrupt} }
