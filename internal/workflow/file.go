package workflow

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// ErrNoFile says that the environment names no file to write outputs or the job summary to: there is no runner, or the
// step was started in a way that lost its environment.
var ErrNoFile = errors.New("is not set, so nothing can be handed to the runner")

// Output sets the step's output called name. Every output is a single line: a value with a line break, or one that is not
// UTF-8, is an error. Secrets are not scrubbed from it, as a key with *** inside would be another key; the runner drops a
// job output that holds a masked value. Without GITHUB_OUTPUT it is ErrNoFile.
func (r *Runner) Output(name, value string) error {
	if err := checkOutput(name, value); err != nil {
		return fmt.Errorf("setting output %q: %w", name, err)
	}
	// Of the runner's two forms, name=value and the one with a delimiter, the first cannot be ended by any value without
	// a line break: all before the first "=" is the name, all behind it is the value (FileCommandManager.cs,
	// EnvFileKeyValuePairs). Both Go toolkits write the other form, with a delimiter that is the same for every value.
	if err := r.appendTo("GITHUB_OUTPUT", func(int64) (string, error) { return name + "=" + value + "\n", nil }); err != nil {
		return fmt.Errorf("setting output %q: %w", name, err)
	}
	return nil
}

func checkOutput(name, value string) error {
	switch {
	case name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "":
		return errors.New("an output's name holds a-z, 0-9, dash and underscore only")
	case strings.ContainsAny(value, "\r\n"):
		return errors.New("the value has a line break")
	case !utf8.ValidString(value):
		return errors.New("the value is not UTF-8")
	}
	return nil
}

// appendTo adds to the file that the variable called name names what text returns, on a line of its own. Text is told how
// many bytes the file will hold before it.
func (r *Runner) appendTo(name string, text func(size int64) (string, error)) (err error) {
	path := r.getenv(name)
	if path == "" {
		return fmt.Errorf("%s %w", name, ErrNoFile)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("opening the file of %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	before, size, err := endLine(f)
	if err != nil {
		return fmt.Errorf("reading the file of %s: %w", name, err)
	}
	added, err := text(size)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(before + added); err != nil {
		return fmt.Errorf("writing the file of %s: %w", name, err)
	}
	return nil
}

// endLine returns the line break that f lacks at its end, if any, and the size of f with it.
func endLine(f *os.File) (string, int64, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return "", 0, err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, info.Size()-1); err != nil {
		return "", 0, err
	}
	if last[0] == '\n' {
		return "", info.Size(), nil
	}
	return "\n", info.Size() + 1, nil
}
