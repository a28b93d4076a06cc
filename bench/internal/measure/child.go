//go:build linux

package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// order is what the process in between is told: the program, and the folder for what it writes.
type order struct {
	Command Command
	Files   string
}

// Child is the process in between: it runs the program of the order and writes its Usage, as JSON.
func Child(argument string, answer io.Writer) error {
	var o order
	if err := json.Unmarshal([]byte(argument), &o); err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}
	cmd := exec.Command(o.Command.Argv[0], o.Command.Argv[1:]...)
	cmd.Env, cmd.Dir = o.Command.Env, o.Command.Dir
	if cmd.Env == nil {
		cmd.Env = []string{} // not ours
	}
	closeAll, err := o.streams(cmd)
	defer closeAll()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return err
	}
	return json.NewEncoder(answer).Encode(usageOf(time.Since(began), cmd.ProcessState))
}

// streams opens the files that the program reads and writes; what it gives closes them.
func (o order) streams(cmd *exec.Cmd) (closeAll func(), err error) {
	in := o.Command.Stdin
	if in == "" {
		in = os.DevNull
	}
	stdin, errIn := os.Open(in)
	stdout, errOut := os.Create(filepath.Join(o.Files, "stdout"))
	stderr, errErr := os.Create(filepath.Join(o.Files, "stderr"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	if err = errors.Join(errIn, errOut, errErr); err != nil {
		err = fmt.Errorf("opening %s: %w", in, err)
	}
	return func() {
		for _, f := range []*os.File{stdin, stdout, stderr} {
			f.Close() // of one that was not opened it is an error
		}
	}, err
}

func usageOf(wall time.Duration, state *os.ProcessState) Usage {
	u := Usage{Wall: wall, User: state.UserTime(), System: state.SystemTime()}
	if raw, ok := state.SysUsage().(*syscall.Rusage); ok {
		u.PeakRSS = raw.Maxrss << 10  // Linux counts it in KiB
		u.Written = raw.Oublock * 512 // and this in sectors
	}
	return u
}
