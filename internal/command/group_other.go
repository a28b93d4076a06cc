//go:build !unix

package command

import (
	"os"
	"os/exec"
)

// ownGroup does nothing where there are no process groups: the program is killed alone.
func ownGroup(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}

// signalGroup ends the program: there is no other signal here.
func signalGroup(cmd *exec.Cmd, _ os.Signal) { _ = cmd.Process.Kill() }

func exitCode(state *os.ProcessState) int { return state.ExitCode() }
