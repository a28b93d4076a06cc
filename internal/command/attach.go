package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Attachment is what a program shares with this process while it runs.
type Attachment struct {
	// Stdin is what the program reads; nil is nothing.
	Stdin io.Reader
	// Stdout and Stderr get what it writes, as it comes. They are required.
	Stdout, Stderr io.Writer
	// Signals are passed on to the program and what it has started; nil has none. What they do is up to the program: only
	// the end of the context ends it in any case.
	Signals <-chan os.Signal
}

// Exit is how a program ended.
type Exit struct {
	// Code is the exit code, as a shell has it: that of the program, or 128 and the number of the signal that ended it.
	Code int
	// Tail is the end of what it wrote to either output, at most MaxOutput bytes.
	Tail string
}

// Attach runs a program as a part of this process: its output is ours, signals reach it, and when it ends, so does all
// that it has left running in its process group. When ctx ends it is asked to end, by SIGTERM or the signal of that kind
// that has just been passed on, and killed after a second.
//
// An error says that there was nothing to run: ErrNotFound, or why it could not be started.
func (Host) Attach(ctx context.Context, argv []string, a Attachment) (Exit, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	tail := &sharedTail{tail: bounded{tail: true}}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.Stdin, io.MultiWriter(tail, a.Stdout), io.MultiWriter(tail, a.Stderr)
	cmd.WaitDelay = grace
	ownGroup(cmd)
	told := make(chan struct{}) // to end, by a signal
	cmd.Cancel = func() error {
		select {
		case <-told:
		case <-time.After(signalLag):
			signalGroup(cmd, syscall.SIGTERM)
		}
		return nil
	}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return Exit{}, fmt.Errorf("%w: %s", ErrNotFound, argv[0])
		}
		return Exit{}, fmt.Errorf("starting %s: %w", Command{Argv: argv}, err)
	}
	ended := make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() { passOn(cmd, a.Signals, told, ended) })
	_ = cmd.Wait() // how it ended is in its state; an output that stays open is somebody's who is ended now
	close(ended)
	passing.Wait()
	killGroup(cmd)
	return Exit{Code: exitCode(cmd.ProcessState), Tail: tail.String()}, nil
}

// signalLag is how much later than the end of the context a signal may come that is the reason of it.
const signalLag = 50 * time.Millisecond

// passOn passes signals on to a program until it has ended. The first one that asks for its end closes told.
func passOn(cmd *exec.Cmd, signals <-chan os.Signal, told chan<- struct{}, ended <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			signalGroup(cmd, s)
			if told != nil && Ends(s) {
				close(told)
				told = nil
			}
		case <-ended:
			return
		}
	}
}

// Ends says whether a signal asks a program to end.
func Ends(s os.Signal) bool {
	return s == os.Interrupt || s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGQUIT
}

// sharedTail is the end of two outputs that are written side by side.
type sharedTail struct {
	mu   sync.Mutex
	tail bounded
}

// Write implements io.Writer.
func (t *sharedTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tail.Write(p)
}

func (t *sharedTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tail.String()
}
