package workflow_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/workflow"
)

// FuzzTheRunnerReadsWhatWasMeant writes any bytes through every door and reads them back as the runner would.
func FuzzTheRunnerReadsWhatWasMeant(f *testing.F) {
	for _, seed := range []string{
		"", "plain", "::error::x", " ::set-output name=key::x\n::stop-commands::t", "a\r::warning::x", "##[error]x", "#####[add-mask]",
		"\uFEFF::error::x", "\xff\xfe:\x00:\x00", "%0A::error::%25", "title==a,b:c", "<<EOF", "a=b<<c", "\u2028::debug::x", "\x1b[31m", "\\::",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "output")
		r, log := newRunner(map[string]string{"GITHUB_OUTPUT": path, "RUNNER_DEBUG": "1"})

		r.Printf("%s", text)
		plain, commands := readLog(log.String())
		require.Empty(t, commands)
		require.Equal(t, meant(strings.TrimSuffix(shown(text), "\n")), meant(strings.Join(plain, "\n")))

		log.Reset()
		r.Annotate(workflow.Annotation{Level: workflow.Warning, Title: text, File: "f", Line: 1, Column: 2, Message: text})
		r.Debug(text)
		r.Group(text)
		r.EndGroup()
		plain, commands = readLog(log.String())
		require.Empty(t, plain)
		require.Len(t, commands, 4)
		requireAnnotation(t, text, commands[0])
		require.Equal(t, "debug", commands[1].name)
		require.Equal(t, meant(shown(text)), meant(commands[1].data))
		require.Equal(t, "group", commands[2].name)
		require.NotContains(t, commands[2].data, "\n")
		require.Equal(t, "endgroup", commands[3].name)

		requireOutput(t, r, path, text)
	})
}

func requireAnnotation(t *testing.T, text string, c command) {
	t.Helper()
	require.Equal(t, "warning", c.name)
	title := c.properties["title"]
	delete(c.properties, "title")
	require.Equal(t, map[string]string{"file": "f", "line": "1", "col": "2"}, c.properties)
	require.LessOrEqual(t, len(utf16.Encode([]rune(title))), 255)
	require.LessOrEqual(t, len(utf16.Encode([]rune(c.data))), 4096)
	message, wasCut := strings.CutSuffix(c.data, " … (cut)")
	if wasCut && len(text) > 1000 {
		require.True(t, strings.HasPrefix(meant(shown(text)), meant(message)))
		return
	}
	require.Equal(t, meant(shown(text)), meant(c.data))
}

func requireOutput(t *testing.T, r *workflow.Runner, path, text string) {
	t.Helper()
	if err := r.Output("key", text); err != nil {
		require.True(t, strings.ContainsAny(text, "\r\n") || !utf8.ValidString(text))
		return
	}
	require.NoError(t, r.Output("next", "1"))
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	outputs, err := readOutputs(string(file))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"key": text, "next": "1"}, outputs)
}

// shown is text as a log shows it: every kind of line break as one, what can't be shown as U+FFFD.
func shown(text string) string {
	text = strings.ToValidUTF8(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\uFFFD")
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 || c == '\uFEFF' {
			return '\uFFFD'
		}
		return c
	}, text)
}

// meant is text without the backslashes that keep it from being a command.
func meant(text string) string { return strings.ReplaceAll(text, `\`, "") }

// FuzzMask holds that a secret reaches the runner as it is, and nothing written later.
func FuzzMask(f *testing.F) {
	for _, seed := range []string{"simple", "a:b,c%", "one\ntwo lines", "::add-mask::", "##[x]", "\xff\xfe", "%0A%25", ">", "***"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, secret string) {
		r, log := newRunner(nil)
		r.Mask(secret)
		_, commands := readLog(log.String())
		if strings.TrimSpace(secret) == "" {
			require.Empty(t, commands)
			return
		}
		require.Equal(t, command{name: "add-mask", data: secret, properties: map[string]string{}}, commands[0])
		for _, c := range commands {
			require.Equal(t, "add-mask", c.name)
		}
		log.Reset()
		r.Printf("<%s>", secret)
		require.Contains(t, log.String(), "***")
		if !strings.Contains("<***>\n", secret) {
			require.NotContains(t, log.String(), secret)
		}
	})
}
