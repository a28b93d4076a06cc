//go:build !unix

package command

import "os/exec"

// ownGroup does nothing where there are no process groups: the program is killed alone.
func ownGroup(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}
