package workflow_test

import (
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/workflow"
)

func TestAnnotate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		in   workflow.Annotation
		want string
	}{
		{"message alone", workflow.Annotation{Level: workflow.Notice, Message: "fine"}, "::notice::fine\n"},
		{
			"all of it",
			workflow.Annotation{Level: workflow.Error, Title: "Pin list", Message: "bad", File: "ci/pins.txt", Line: 3, Column: 7},
			"::error col=7,file=ci/pins.txt,line=3,title=Pin list::bad\n",
		},
		{
			"escaped",
			workflow.Annotation{Level: workflow.Warning, Title: "a: b, 5%", Message: "50%, then\r\n:: x", File: "C:\\a,b"},
			"::warning file=C%3A\\a%2Cb,title=a%3A b%2C 5%25::50%25, then%0A\\:: x\n",
		},
		{"column without line", workflow.Annotation{Level: workflow.Error, File: "f", Column: 7}, "::error file=f::\n"},
		{"line without file", workflow.Annotation{Level: workflow.Error, Line: 7}, "::error::\n"},
		{"title of nothing", workflow.Annotation{Level: workflow.Error, Title: " = \n"}, "::error::\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, log := newRunner(nil)
			r.Annotate(tt.in)
			require.Equal(t, tt.want, log.String())
		})
	}
}

func TestAnnotationIsCutWhereTheRunnerWould(t *testing.T) {
	t.Parallel()
	const mark = " … (cut)"
	tests := []struct {
		name, message, want string
	}{
		{"at the limit", strings.Repeat("a", 4096), strings.Repeat("a", 4096)},
		{"one over", strings.Repeat("a", 4097), strings.Repeat("a", 4096-8) + mark},
		{"two units a rune", "a" + strings.Repeat("🐳", 2048), "a" + strings.Repeat("🐳", 2043) + mark},
		{"many bytes, few units", strings.Repeat("日", 4096), strings.Repeat("日", 4096)},
		{"invalid UTF-8", strings.Repeat("\xff", 3), "\uFFFD"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, log := newRunner(nil)
			r.Annotate(workflow.Annotation{Level: workflow.Warning, Title: strings.Repeat("t", 300), Message: tt.message})
			_, commands := readLog(log.String())
			require.Len(t, commands, 1)
			require.Equal(t, tt.want, commands[0].data)
			require.LessOrEqual(t, len(utf16.Encode([]rune(commands[0].data))), 4096)
			require.Equal(t, strings.Repeat("t", 255-8)+mark, commands[0].properties["title"])
		})
	}
}
