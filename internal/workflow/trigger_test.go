package workflow_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUntrusted(t *testing.T) {
	t.Parallel()
	const (
		same    = `{"pull_request":{"head":{"repo":{"full_name":"o/r"}},"base":{"repo":{"full_name":"o/r"}}}}`
		fork    = `{"pull_request":{"head":{"repo":{"full_name":"evil/r"}},"base":{"repo":{"full_name":"o/r"}}}}`
		deleted = `{"pull_request":{"head":{"repo":null},"base":{"repo":{"full_name":"o/r"}}}}`
	)
	tests := []struct {
		name, event, payload string
		want                 bool
	}{
		{"push", "push", `{}`, false},
		{"schedule", "schedule", `{}`, false},
		{"dispatch", "workflow_dispatch", `{}`, false},
		{"merge queue", "merge_group", `{}`, false},
		{"no event", "", `{}`, false},
		{"own branch", "pull_request", same, false},
		{"fork", "pull_request", fork, true},
		{"deleted fork", "pull_request", deleted, true},
		{"review on a fork", "pull_request_review", fork, true},
		{"review comment on an own branch", "pull_request_review_comment", same, false},
		{"payload says nothing", "pull_request", `{"pull_request":"?"}`, true},
		{"payload is no JSON", "pull_request", `<html>`, true},
		{"payload is a list", "pull_request", `[]`, true},
		{"both unknown", "pull_request", `{"pull_request":{"head":{},"base":{}}}`, true},
		{"target", "pull_request_target", same, true},
		{"workflow run", "workflow_run", `{}`, true},
		{"comment", "issue_comment", `{}`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "event.json")
			require.NoError(t, os.WriteFile(path, []byte(tt.payload), 0o600))
			r, _ := newRunner(map[string]string{"GITHUB_EVENT_NAME": tt.event, "GITHUB_EVENT_PATH": path, "GITHUB_RUN_ID": "odd"})
			require.Equal(t, tt.event, r.Event())
			require.Equal(t, tt.want, r.Untrusted())
		})
	}
}

func TestPullRequestWithoutPayloadIsUntrusted(t *testing.T) {
	t.Parallel()
	r, _ := newRunner(map[string]string{"GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": filepath.Join(t.TempDir(), "gone")})
	require.True(t, r.Untrusted())
}

func TestPublic(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]bool{
		`{"repository":{"private":true}}`:  false,
		`{"repository":{"private":false}}`: true,
		`{"repository":{}}`:                true,
		`{}`:                               true,
		`no JSON`:                          true,
	} {
		t.Run(payload, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "event.json")
			require.NoError(t, os.WriteFile(path, []byte(payload), 0o600))
			r, _ := newRunner(map[string]string{"GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": path})
			require.Equal(t, want, r.Public())
		})
	}
}
