//go:build unix

package command

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives cmd a process group, so that it ends together with what it has started, and has it asked to end.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// killGroup kills what is left of the group.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// signalGroup sends a signal to the whole group.
func signalGroup(cmd *exec.Cmd, s os.Signal) {
	if number, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(-cmd.Process.Pid, number)
	}
}

// exitCode is the exit code of a program that has ended, as a shell has it.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
