//go:build unix

package cli

import (
	"os"
	"syscall"
)

// passedOn are the signals that retry passes on to its command.
func passedOn() []os.Signal {
	return []os.Signal{
		os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	}
}
