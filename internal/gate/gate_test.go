package gate_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/gate"
)

// needs writes a needs context of jobs without outputs, from pairs of id and result.
func needs(t *testing.T, pairs ...string) []byte {
	t.Helper()
	jobs := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		jobs[pairs[i]] = map[string]any{"result": pairs[i+1], "outputs": map[string]string{}}
	}
	data, err := json.MarshalIndent(jobs, "", "  ")
	require.NoError(t, err)
	return data
}

func TestJudge(t *testing.T) {
	t.Parallel()
	list := func(words ...string) []string { return append([]string{}, words...) }
	tests := []struct {
		name   string
		jobs   []string
		rules  gate.Rules
		failed []string // nil is a green run
		why    []string // every finding, in order
	}{
		{name: "all green", jobs: list("prime", "success", "lane", "success")},
		{name: "prime alone", jobs: list("prime", "success")},
		{name: "several primes", jobs: list("prime-amd64", "success", "prime-arm64", "success", "lane", "success")},
		{
			name: "failed prime, skipped tiers", jobs: list("prime", "failure", "unit", "skipped", "e2e", "skipped"),
			failed: list("e2e", "prime", "unit"),
			why: list(`prime: failed and is required to succeed`, `e2e: was skipped, and allowed-skips does not name it`,
				`unit: was skipped, and allowed-skips does not name it`),
		},
		{
			name: "failed prime, tiers that may be skipped", jobs: list("prime", "failure", "unit", "skipped"),
			rules: gate.Rules{AllowedSkips: list("unit")}, failed: list("prime"), why: list(`prime: failed and is required to succeed`),
		},
		{
			name: "cancelled prime", jobs: list("prime", "cancelled", "lane", "skipped"), rules: gate.Rules{AllowedSkips: list("*")},
			failed: list("prime"), why: list(`prime: was cancelled and is required to succeed`),
		},
		{
			name: "skipped prime", jobs: list("prime", "skipped", "lane", "success"), failed: list("prime"),
			why: list(`prime: was skipped and is required to succeed`),
		},
		{
			name: "everything may be skipped but prime", jobs: list("prime", "skipped", "lane", "skipped"), rules: gate.Rules{AllowedSkips: list("*")},
			failed: list("prime"), why: list(`prime: was skipped and is required to succeed; require outweighs allowed-skips`),
		},
		{
			name: "everything may fail but prime", jobs: list("prime", "failure", "lane", "failure"), rules: gate.Rules{AllowedFailures: list("*")},
			failed: list("prime"), why: list(`prime: failed and is required to succeed; require outweighs allowed-failures`),
		},
		{
			name: "one of two primes", jobs: list("prime-a", "success", "prime-b", "failure"), failed: list("prime-b"),
			why: list(`prime-b: failed and is required to succeed`),
		},
		{name: "prime inside an id", jobs: list("images_prime_all", "success")},
		{
			name: "no prime", jobs: list("build", "success", "lane", "success"), failed: list(),
			why: list(`require: "*prime*" matches none of the jobs that the gate needs (build, lane)`),
		},
		{
			name: "ids have case", jobs: list("Prime", "success"), failed: list(),
			why: list(`require: "*prime*" matches none of the jobs that the gate needs (Prime)`),
		},
		{
			name: "empty context", failed: list(),
			why: list("the needs context is empty: list the jobs under needs of the gate's job"),
		},
		{
			name: "empty context and rules", rules: gate.Rules{Require: list("a"), AtLeastOne: list("b")}, failed: list(),
			why: list("the needs context is empty: list the jobs under needs of the gate's job", `at-least-one: "b" matches none of the jobs that the gate needs`),
		},
		{name: "require names the job", jobs: list("pull", "success", "lane", "success"), rules: gate.Rules{Require: list("pull")}},
		{
			name: "require replaces the default", jobs: list("pull", "success", "prime-extra", "failure"),
			rules: gate.Rules{Require: list("pull"), AllowedFailures: list("prime-extra")},
		},
		{name: "require everything", jobs: list("a", "success", "b", "success"), rules: gate.Rules{Require: list("*")}},
		{
			name: "require everything, one skipped", jobs: list("a", "success", "b", "skipped"), rules: gate.Rules{Require: list("*")},
			failed: list("b"), why: list(`b: was skipped and is required to succeed`),
		},
		{
			name: "one of the patterns of require matches nothing", jobs: list("prime", "success", "lane", "success"),
			rules: gate.Rules{Require: list("prime", "warm-*")}, failed: list(),
			why: list(`require: "warm-*" matches none of the jobs that the gate needs (lane, prime)`),
		},
		{
			name: "the rules come before the jobs", jobs: list("prime", "success", "lane", "failure"), rules: gate.Rules{Require: list("gone")},
			failed: list("lane"),
			why: list(`require: "gone" matches none of the jobs that the gate needs (lane, prime)`,
				`lane: failed, and allowed-failures does not name it`),
		},
		{
			name: "failed lane", jobs: list("prime", "success", "lane", "failure"), failed: list("lane"),
			why: list(`lane: failed, and allowed-failures does not name it`),
		},
		{
			name: "cancelled lane", jobs: list("prime", "success", "lane", "cancelled"), failed: list("lane"),
			why: list(`lane: was cancelled, and allowed-failures does not name it`),
		},
		{
			name: "skipped lane", jobs: list("prime", "success", "lane", "skipped"), failed: list("lane"),
			why: list(`lane: was skipped, and allowed-skips does not name it`),
		},
		{name: "allowed failure", jobs: list("prime", "success", "lane", "failure"), rules: gate.Rules{AllowedFailures: list("lane")}},
		{name: "allowed failure, cancelled", jobs: list("prime", "success", "lane", "cancelled"), rules: gate.Rules{AllowedFailures: list("lane")}},
		{
			name: "allowed failure is no allowed skip", jobs: list("prime", "success", "lane", "skipped"), rules: gate.Rules{AllowedFailures: list("lane")},
			failed: list("lane"), why: list(`lane: was skipped, and allowed-skips does not name it`),
		},
		{name: "allowed skip", jobs: list("prime", "success", "docs", "skipped"), rules: gate.Rules{AllowedSkips: list("docs")}},
		{name: "allowed skip that ran", jobs: list("prime", "success", "docs", "success"), rules: gate.Rules{AllowedSkips: list("docs")}},
		{
			name: "allowed skip is no allowed failure", jobs: list("prime", "success", "docs", "failure"), rules: gate.Rules{AllowedSkips: list("docs")},
			failed: list("docs"), why: list(`docs: failed, and allowed-failures does not name it`),
		},
		{
			name: "globs", jobs: list("prime", "success", "e2e-git", "skipped", "e2e-helm", "skipped", "lint", "failure"),
			rules: gate.Rules{AllowedSkips: list("e2e-*"), AllowedFailures: list("l?nt")},
		},
		{
			name: "classes in globs", jobs: list("prime", "success", "tier1", "skipped", "tier4", "skipped"),
			rules: gate.Rules{AllowedSkips: list("tier[1-3]")}, failed: list("tier4"),
			why: list(`tier4: was skipped, and allowed-skips does not name it`),
		},
		{
			name: "a pattern is a whole id", jobs: list("prime", "success", "docs-extra", "skipped"), rules: gate.Rules{AllowedSkips: list("docs")},
			failed: list("docs-extra"),
			why: list(`docs-extra: was skipped, and allowed-skips does not name it`,
				`allowed-skips: "docs" matches none of the jobs that the gate needs`),
		},
		{
			name: "allowances that match nothing are notices", jobs: list("prime", "success"),
			rules: gate.Rules{AllowedSkips: list("docs"), AllowedFailures: list("flaky-*")},
			why: list(`allowed-skips: "docs" matches none of the jobs that the gate needs`,
				`allowed-failures: "flaky-*" matches none of the jobs that the gate needs`),
		},
		{
			name: "at least one", jobs: list("prime", "success", "lane-a", "skipped", "lane-b", "success"),
			rules: gate.Rules{AllowedSkips: list("lane-*"), AtLeastOne: list("lane-*")},
		},
		{
			name: "at least one, all skipped", jobs: list("prime", "success", "lane-a", "skipped", "lane-b", "skipped"),
			rules: gate.Rules{AllowedSkips: list("lane-*"), AtLeastOne: list("lane-*")}, failed: list(),
			why: list("at-least-one: no job succeeded of those that match lane-*"),
		},
		{
			name: "at least one, all failed as allowed", jobs: list("prime", "success", "lane-a", "failure", "lane-b", "cancelled"),
			rules: gate.Rules{AllowedFailures: list("lane-*"), AtLeastOne: list("lane-a", "lane-b")}, failed: list(),
			why: list("at-least-one: no job succeeded of those that match lane-a, lane-b"),
		},
		{
			name: "at least one of several patterns", jobs: list("prime", "success", "unit", "skipped", "e2e", "success"),
			rules: gate.Rules{AllowedSkips: list("*"), AtLeastOne: list("unit", "e2e")},
		},
		{
			name: "at least one of nothing", jobs: list("prime", "success"), rules: gate.Rules{AtLeastOne: list("lane-*")}, failed: list(),
			why: list("at-least-one: no job succeeded of those that match lane-*", `at-least-one: "lane-*" matches none of the jobs that the gate needs`),
		},
		{
			name: "unknown result", jobs: list("prime", "success", "lane", "neutral"), rules: gate.Rules{AllowedSkips: list("*"), AllowedFailures: list("*")},
			failed: list("lane"), why: list(`lane: has the unknown result "neutral"`),
		},
		{name: "unknown result of prime", jobs: list("prime", "SUCCESS"), failed: list("prime"), why: list(`prime: has the unknown result "SUCCESS"`)},
		{name: "empty result", jobs: list("prime", ""), failed: list("prime"), why: list(`prime: has the unknown result ""`)},
		{
			name: "required jobs come first", jobs: list("a", "failure", "prime", "failure", "z", "skipped"), failed: list("a", "prime", "z"),
			why: list(`prime: failed and is required to succeed`, `a: failed, and allowed-failures does not name it`,
				`z: was skipped, and allowed-skips does not name it`),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v, err := gate.Judge(needs(t, tt.jobs...), tt.rules)
			require.NoError(t, err)
			var why []string
			fatal := false
			for _, f := range v.Findings {
				if f.Job != "" {
					f.Why = f.Job + ": " + f.Why
				}
				why = append(why, f.Why)
				fatal = fatal || f.Fatal
			}
			require.Equal(t, tt.why, why)
			require.Equal(t, tt.failed == nil, v.OK)
			require.Equal(t, fatal, !v.OK)
			require.ElementsMatch(t, tt.failed, v.Failed)
			require.Len(t, v.Jobs, len(tt.jobs)/2)
		})
	}
}

func TestVerdictIsReadyForOutputs(t *testing.T) {
	t.Parallel()
	v, err := gate.Judge(needs(t, "prime", "success"), gate.Rules{})
	require.NoError(t, err)
	require.Equal(t, gate.Verdict{
		OK: true, Jobs: []gate.Job{{ID: "prime", Result: "success", Passed: true, Why: "succeeded"}}, Failed: []string{}, Skipped: []string{},
	}, v)
	require.Equal(t, "success", v.Result())

	v, err = gate.Judge(needs(t, "prime", "failure", "docs", "skipped", "lane", "skipped"), gate.Rules{AllowedSkips: []string{"docs"}})
	require.NoError(t, err)
	require.Equal(t, "failure", v.Result())
	require.Equal(t, []string{"lane", "prime"}, v.Failed)
	require.Equal(t, []string{"docs", "lane"}, v.Skipped)
	require.Equal(t, gate.Job{ID: "docs", Result: "skipped", Passed: true, Why: "was skipped, which allowed-skips allows"}, v.Jobs[0])
	require.Equal(t, gate.Finding{Job: "prime", Result: "failure", Why: `failed and is required to succeed`, Fatal: true}, v.Findings[0])
}
