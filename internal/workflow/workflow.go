// Package workflow owns the runner's protocol: inputs, outputs, annotations, log groups, masks, debug lines, the job
// summary, and what a run may know of its trigger. It knows nothing of images, stores or modes.
//
// Protocol facts are those of actions/runner at v2.336 (commit 258d6c8), in src/Runner.Common/ActionCommand.cs,
// src/Runner.Worker/ActionCommandManager.cs, FileCommandManager.cs and ExecutionContext.cs.
package workflow

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/sethvargo/go-githubactions"
)

// Options say where a Runner finds its surroundings. Both fields are required: this package reads no global state.
type Options struct {
	// Getenv looks up an environment variable; "" is unset.
	Getenv func(name string) string
	// Stdout is what the runner reads line by line.
	Stdout io.Writer
}

// Runner speaks to the runner that started this process. Outside a workflow the commands are left out, and plain lines
// are still written. Safe for concurrent use: whole lines are written at once.
type Runner struct {
	getenv func(string) string
	action *githubactions.Action
	on     bool

	mu      sync.Mutex
	stdout  io.Writer
	secrets secrets
	err     error
}

// New makes the Runner of a process.
func New(opts Options) *Runner {
	return &Runner{
		getenv: opts.Getenv,
		// Only its readers are used. Its writers panic when the stream or the file is gone, so what they would write is
		// written here, from the module's Command.
		action: githubactions.New(githubactions.WithGetenv(opts.Getenv), githubactions.WithWriter(io.Discard)),
		on:     opts.Getenv("GITHUB_ACTIONS") == "true",
		stdout: opts.Stdout,
	}
}

// Enabled says whether a runner is listening.
func (r *Runner) Enabled() bool { return r.on }

// Input reads the action input called name, without the white space around it, and says whether it was given; an empty
// input was not. PULLONCE_INPUT_<NAME>, in upper case with dashes and spaces as underscores, is how our composite action
// hands it on, since a run: step gets no INPUT_*. INPUT_<NAME>, in upper case with spaces as underscores and its dashes
// kept, is what the runner gives a container action.
func (r *Runner) Input(name string) (string, bool) {
	ours := "PULLONCE_INPUT_" + strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToUpper(name))
	if value := strings.TrimSpace(r.getenv(ours)); value != "" {
		return value, true
	}
	value := r.action.GetInput(name)
	return value, value != ""
}

// Printf writes plain lines to the log. What it formats may hold foreign text: whatever is in there, the runner takes
// none of it for a command, and no secret given to Mask is in it.
func (r *Runner) Printf(format string, args ...any) {
	r.write(r.clean(fmt.Sprintf(format, args...)))
}

// Debug writes debug lines, where the run was started with debug logging (RUNNER_DEBUG=1).
func (r *Runner) Debug(text string) {
	if r.getenv("RUNNER_DEBUG") == "1" {
		r.issue("debug", r.clean(text), nil)
	}
}

// Group opens a fold of the log. Groups do not nest: a further one ends the one before.
func (r *Runner) Group(title string) { r.issue("group", oneLine(r.clean(title)), nil) }

// EndGroup closes the fold.
func (r *Runner) EndGroup() { r.issue("endgroup", "", nil) }

// Err is the first error of writing to the log, or nil. A log that can't be written ends nothing by itself.
func (r *Runner) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// clean makes foreign text fit for people to read: without secrets and without commands.
func (r *Runner) clean(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return harmless(r.secrets.scrub(text))
}

// issue writes one command, if there is a runner to read it.
func (r *Runner) issue(name, message string, properties githubactions.CommandProperties) {
	if !r.on {
		return
	}
	r.write((&githubactions.Command{Name: name, Message: message, Properties: properties}).String())
}

// write writes whole lines in one call, so that no other line can end up inside.
func (r *Runner) write(text string) {
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := io.WriteString(r.stdout, text); err != nil && r.err == nil {
		r.err = fmt.Errorf("writing to the log: %w", err)
	}
}
