package workflow_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/workflow"
)

// newRunner makes a Runner inside a workflow, with env on top, and the log that it writes.
func newRunner(env map[string]string) (*workflow.Runner, *bytes.Buffer) {
	all := map[string]string{"GITHUB_ACTIONS": "true"}
	maps.Copy(all, env)
	log := new(bytes.Buffer)
	return workflow.New(workflow.Options{Getenv: func(name string) string { return all[name] }, Stdout: log}), log
}

func TestInput(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, input string
		env         map[string]string
		want        string
		given       bool
	}{
		{"absent", "pins", nil, "", false},
		{"empty is not given", "pins", map[string]string{"PULLONCE_INPUT_PINS": " \n", "INPUT_PINS": ""}, "", false},
		{"composite", "key-salt", map[string]string{"PULLONCE_INPUT_KEY_SALT": " s "}, "s", true},
		{"container keeps dashes", "key-salt", map[string]string{"INPUT_KEY-SALT": "s"}, "s", true},
		{"ours comes first", "pins", map[string]string{"PULLONCE_INPUT_PINS": "a", "INPUT_PINS": "b"}, "a", true},
		{"several lines", "pins", map[string]string{"PULLONCE_INPUT_PINS": "a\nb\n"}, "a\nb", true},
		{"spaces", "two words", map[string]string{"INPUT_TWO_WORDS": "x"}, "x", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, _ := newRunner(tt.env)
			got, given := r.Input(tt.input)
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.given, given)
		})
	}
}

func TestOutsideAWorkflowOnlyPlainLinesAreWritten(t *testing.T) {
	t.Parallel()
	r, log := newRunner(map[string]string{"GITHUB_ACTIONS": "", "RUNNER_DEBUG": "1"})
	r.Mask("hunter2!")
	r.Group("a group")
	r.Debug("a detail")
	r.Annotate(workflow.Annotation{Level: workflow.Error, Message: "wrong"})
	r.EndGroup()
	r.Printf("password %s", "hunter2!")
	require.False(t, r.Enabled())
	require.Equal(t, "password ***\n", log.String())
}

func TestGroupsAndDebugLines(t *testing.T) {
	t.Parallel()
	for debug, want := range map[string]string{
		"":  "::group::Pulling redis:7\n::endgroup::\n",
		"1": "::group::Pulling redis:7\n::debug::100%25%0Adone\n::endgroup::\n",
	} {
		r, log := newRunner(map[string]string{"RUNNER_DEBUG": debug})
		r.Group("Pulling\n redis:7 ")
		r.Debug("100%\r\ndone")
		r.EndGroup()
		require.Equal(t, want, log.String())
	}
}

func TestForeignTextStartsNoCommand(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"plain":                                 "plain\n",
		"":                                      "\n",
		"a :: b":                                "a :: b\n",
		"## heading":                            "## heading\n",
		"::set-output name=key::x":              "\\::set-output name=key::x\n",
		" \t\u00a0\u3000::stop-commands::t":     " \t\u00a0\u3000\\::stop-commands::t\n",
		"\uFEFF::error::x":                      "\uFFFD::error::x\n",
		"body:\n::error::x\n":                   "body:\n\\::error::x\n",
		"50%\r::error::x":                       "50%\n\\::error::x\n",
		"a\r\n\r\n::error::x":                   "a\n\n\\::error::x\n",
		"text ##[error]x":                       "text ##\\[error]x\n",
		"####[error]x ##[add-mask]y":            "####\\[error]x ##\\[add-mask]y\n",
		"::##[error]::x":                        "\\::##\\[error]::x\n",
		"\x1b[31mred\x00":                       "\uFFFD[31mred\uFFFD\n",
		"\xff\xfe:\x00:\x00":                    "\uFFFD:\uFFFD:\uFFFD\n",
		"\v::error::x":                          "\uFFFD::error::x\n",
		"\u2028::error::x":                      "\u2028\\::error::x\n",
		"toomanyrequests: retry-after: 880.092": "toomanyrequests: retry-after: 880.092\n",
	}
	for body, want := range tests {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			r, log := newRunner(nil)
			r.Printf("%s", body)
			require.Equal(t, want, log.String())
			_, commands := readLog(log.String())
			require.Empty(t, commands)
		})
	}
}

func TestLinesOfConcurrentCallsStayWhole(t *testing.T) {
	t.Parallel()
	r, log := newRunner(nil)
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() { r.Printf("line %d\nand its second", i) })
		group.Go(func() { r.Mask(fmt.Sprintf("secret-%d", i)) })
	}
	group.Wait()
	plain, commands := readLog(log.String())
	require.Len(t, plain, 100)
	require.Len(t, commands, 100) // each secret and its base64
	for i := 0; i < len(plain); i += 2 {
		require.True(t, strings.HasPrefix(plain[i], "line "))
	}
}

type brokenPipe struct{ io.Writer }

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestALogThatCannotBeWrittenIsAnErrorAndNoPanic(t *testing.T) {
	t.Parallel()
	r := workflow.New(workflow.Options{Getenv: func(string) string { return "true" }, Stdout: brokenPipe{}})
	require.NoError(t, r.Err())
	r.Printf("lost")
	r.Annotate(workflow.Annotation{Level: workflow.Error, Message: "lost too"})
	require.EqualError(t, r.Err(), "writing to the log: broken pipe")
}
