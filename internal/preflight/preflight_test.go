package preflight_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/preflight"
	"github.com/pullonce/pullonce/internal/retry"
)

// asker answers by a function.
type asker func(ctx context.Context, q preflight.Question) (preflight.Answer, error)

func (a asker) Ask(ctx context.Context, q preflight.Question) (preflight.Answer, error) {
	return a(ctx, q)
}

// fault is an error of a class.
type fault retry.Class

func (f fault) Error() string             { return retry.Class(f).String() }
func (f fault) RetryClass() retry.Class   { return retry.Class(f) }
func (f fault) RetryAfter() time.Duration { return 0 }

func questions(t *testing.T, lines ...string) []preflight.Question {
	t.Helper()
	permissions, err := preflight.Parse(lines)
	require.NoError(t, err)
	return preflight.Questions(permissions, "ci")
}

func TestWhatIsInNoNamespaceIsAskedForWithoutOne(t *testing.T) {
	t.Parallel()
	var namespaces []string
	for _, q := range questions(t, "pods: get", "nodes: get", "namespaces: get", "example.com/nodes: get") {
		namespaces = append(namespaces, q.Namespace)
	}
	require.Equal(t, []string{"ci", "", "", "ci"}, namespaces)
}

// TestAVerdict has a question of every outcome; one of them is answered late.
func TestAVerdict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		waits := map[string]int{}
		v, err := preflight.Ask(t.Context(), asker(func(_ context.Context, q preflight.Question) (preflight.Answer, error) {
			switch {
			case q.Verb == "delete":
				return preflight.Answer{Reason: "no"}, nil
			case q.Verb == "watch":
				return preflight.Answer{}, errors.New("not for you")
			case q.Verb == "list" && time.Since(began) < 2*time.Second:
				return preflight.Answer{}, fault(retry.Transient)
			}
			return preflight.Answer{Allowed: true}, nil
		}), questions(t, "pods: get,list,watch,delete", "secrets: delete", "pods/log: get"), preflight.Options{
			Jitter: func(preflight.Question) func() float64 { return func() float64 { return 1 } },
			OnWait: func(q preflight.Question, _ int, _ time.Duration, _ error) {
				mu.Lock()
				defer mu.Unlock()
				waits[q.String()]++
			},
		})
		require.NoError(t, err)
		var outcomes []string
		for _, r := range v.Rows {
			outcomes = append(outcomes, r.String()+" "+r.Outcome())
		}
		require.Equal(t, []string{
			"pods: get allowed", "pods: list allowed", "pods: watch unanswered", "pods: delete denied", "secrets: delete denied", "pods/log: get allowed",
		}, outcomes)
		require.False(t, v.Allowed())
		require.False(t, v.Answered())
		require.Equal(t, []string{"pods: delete", "secrets: delete"}, preflight.Lines(v.Denied()))
		require.Equal(t, []string{"pods: watch"}, preflight.Lines(v.Failed()))
		require.Equal(t, map[string]int{"pods: list": 1}, waits)
		w, ok := v.RodeOut()
		require.True(t, ok)
		require.Equal(t, preflight.Window{Length: 2 * time.Second, Questions: 1, Attempts: 2, Last: fault(retry.Transient)}, w)
	})
}

func TestNothingWasRiddenOut(t *testing.T) {
	t.Parallel()
	v, err := preflight.Ask(t.Context(), asker(func(context.Context, preflight.Question) (preflight.Answer, error) {
		return preflight.Answer{Allowed: true}, nil
	}), questions(t, "pods: get"), preflight.Options{})
	require.NoError(t, err)
	require.True(t, v.Allowed())
	_, ok := v.RodeOut()
	require.False(t, ok)
}

func TestQuestionsAreAskedSideBySide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := preflight.Ask(t.Context(), asker(func(ctx context.Context, _ preflight.Question) (preflight.Answer, error) {
			return preflight.Answer{Allowed: true}, retry.Sleep(ctx, 5*time.Second)
		}), questions(t, preflight.Default()...), preflight.Options{})
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, time.Since(began))
	})
}
