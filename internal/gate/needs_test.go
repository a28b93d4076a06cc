package gate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/gate"
)

// TestContextsAsTheRunnerWritesThem holds whole needs contexts, as toJSON prints them, to the rules.
func TestContextsAsTheRunnerWritesThem(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, needs string
		rules       gate.Rules
		ok          bool
	}{
		{"job outputs", `{"prime": {"result": "success", "outputs": {"keys": "[\"a\",\"b\"]", "cache-hit": "true"}}}`, gate.Rules{}, true},
		{"an output called result", `{"prime": {"result": "failure", "outputs": {"result": "success"}}}`, gate.Rules{}, false},
		{"outputs before the result", `{"prime": {"outputs": {"result": "failure"}, "result": "success"}}`, gate.Rules{}, true},
		{"a matrix job is one job", `{"prime": {"result": "success", "outputs": {}}, "lane": {"result": "failure", "outputs": {"x": "last one wins"}}}`, gate.Rules{}, false},
		{"a reusable workflow is one job", `{"prime": {"result": "success", "outputs": {}}, "call-e2e": {"result": "success", "outputs": {"from-inside": "1"}}}`, gate.Rules{}, true},
		{"a reusable workflow that was skipped", `{"prime": {"result": "success", "outputs": {}}, "call-e2e": {"result": "skipped", "outputs": {}}}`, gate.Rules{}, false},
		{"prime in a reusable workflow", `{"call-prime": {"result": "cancelled", "outputs": {}}, "lane": {"result": "skipped", "outputs": {}}}`, gate.Rules{AllowedSkips: []string{"lane"}}, false},
		{"line breaks and a BOM inside outputs", "{\"prime\": {\"result\": \"success\", \"outputs\": {\"log\": \"::error::x\\n\uFEFF\"}}}\n", gate.Rules{}, true},
		{"no outputs at all", `{"prime": {"result": "success"}}`, gate.Rules{}, true},
		{"fields to come", `{"prime": {"result": "success", "outputs": {}, "conclusion": 7}}`, gate.Rules{}, true},
		{"no result", `{"prime": {"outputs": {}}}`, gate.Rules{}, false},
		{"result in another spelling", `{"prime": {"Result": "success"}}`, gate.Rules{}, false},
		{"null job", `{"prime": null}`, gate.Rules{}, false},
		{"null result", `{"prime": {"result": null}}`, gate.Rules{}, false},
		{"null context", `null`, gate.Rules{}, false},
		{"empty context", `{}`, gate.Rules{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v, err := gate.Judge([]byte(tt.needs), tt.rules)
			require.NoError(t, err)
			require.Equal(t, tt.ok, v.OK, "%+v", v.Findings)
		})
	}
}

func TestJudgeRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	const fine = `{"prime": {"result": "success"}}`
	tests := []struct {
		name, needs string
		rules       gate.Rules
		want        string
	}{
		{"nothing", ``, gate.Rules{}, "jobs is missing"},
		{"no JSON", `Object`, gate.Rules{}, "reading the needs context"},
		{"a list", `[]`, gate.Rules{}, "reading the needs context"},
		{"a job that is text", `{"prime": "success"}`, gate.Rules{}, "reading the needs context"},
		{"a result that is a number", `{"prime": {"result": 1}}`, gate.Rules{}, `reading the result of job "prime"`},
		{"more behind it", fine + fine, gate.Rules{}, "reading the needs context"},
		{"a job twice", `{"prime": {"result": "failure"}, "prime": {"result": "success"}}`, gate.Rules{}, `reading the needs context: "prime" is there twice`},
		{"a job twice, spelled otherwise", `{"prime": {"result": "failure"}, "\u0070rime": {"result": "success"}}`, gate.Rules{}, `"prime" is there twice`},
		{"a result twice", `{"prime": {"result": "failure", "outputs": {}, "result": "success"}}`, gate.Rules{}, `"result" is there twice`},
		{"pattern of require", fine, gate.Rules{Require: []string{"[a"}}, `reading require: invalid pattern "[a"`},
		{"pattern of allowed-skips", fine, gate.Rules{AllowedSkips: []string{"a", "b[]"}}, `reading allowed-skips: invalid pattern "b[]"`},
		{"pattern of allowed-failures", fine, gate.Rules{AllowedFailures: []string{`a\`}}, `reading allowed-failures: invalid pattern "a\\"`},
		{"empty pattern", fine, gate.Rules{AtLeastOne: []string{" "}}, "reading at-least-one: empty pattern"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := gate.Judge([]byte(tt.needs), tt.rules)
			require.ErrorContains(t, err, tt.want)
		})
	}
}
