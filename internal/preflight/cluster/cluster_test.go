package cluster_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/preflight"
	"github.com/pullonce/pullonce/internal/preflight/apitest"
	"github.com/pullonce/pullonce/internal/preflight/kubeconfig"
	"github.com/pullonce/pullonce/internal/retry"
)

func TestEveryQuestionIsAskedOnceAsItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &apitest.Server{})
		began := time.Now()
		v, err := preflight.Ask(t.Context(), b.pod(t), hooks(t), preflight.Options{})
		require.NoError(t, err)
		require.True(t, v.Allowed())
		require.Zero(t, time.Since(began))
		var asked []string
		for _, r := range b.Log() {
			require.Equal(t, "token-1", r.Token)
			asked = append(asked, r.Question)
		}
		require.ElementsMatch(t, []string{
			"pods: get in ci", "pods: list in ci", "pods: create in ci", "pods: delete in ci", "pods/exec: get in ci",
			"pods/exec: create in ci", "pods/log: get in ci", "pods/log: list in ci", "pods/log: watch in ci", "secrets: get in ci",
			"secrets: list in ci", "secrets: create in ci", "secrets: delete in ci",
		}, asked)
	})
}

func TestQuestionsOfEveryShape(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &apitest.Server{})
		permissions, err := preflight.Parse([]string{"batch/jobs: create", "apps/deployments/scale: patch", "nodes: list", "*: *"})
		require.NoError(t, err)
		_, err = preflight.Ask(t.Context(), b.pod(t), preflight.Questions(permissions, "ci"), preflight.Options{})
		require.NoError(t, err)
		var asked []string
		for _, r := range b.Log() {
			asked = append(asked, r.Question)
		}
		require.ElementsMatch(t, []string{"batch/jobs: create in ci", "apps/deployments/scale: patch in ci", "nodes: list", "*: * in ci"}, asked)
	})
}

func TestADenialIsAnAnswerAndNotAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &apitest.Server{Denied: []string{"pods/exec: create", "secrets: create", "secrets: delete"}})
		began := time.Now()
		v, err := preflight.Ask(t.Context(), b.pod(t), hooks(t), preflight.Options{})
		require.NoError(t, err)
		require.False(t, v.Allowed())
		require.True(t, v.Answered())
		require.Equal(t, []string{"pods/exec: create", "secrets: create,delete"}, preflight.Lines(v.Denied()))
		require.Len(t, b.Log(), 13)
		require.Zero(t, time.Since(began))
	})
}

// until is a fault that passes after a time.
func until(fault apitest.Fault, length time.Duration) func(time.Time) apitest.Fault {
	start := time.Now()
	return func(at time.Time) apitest.Fault {
		if at.Sub(start) < length {
			return fault
		}
		return apitest.None
	}
}

// passed is a fault that passes after 6 s, with what it costs when the waits are at their shortest: 1, 2, 4, 5, 5 … s.
type passed struct {
	fault    apitest.Fault
	what     string
	attempts int
	elapsed  time.Duration
}

func passing() []passed {
	return []passed{
		{apitest.Refused, "connection refused", 4, 7 * time.Second},
		{apitest.Reset, "connection reset", 4, 7 * time.Second},
		{apitest.Hang, "nothing", 2, 16 * time.Second},
		{"401", "401", 4, 7 * time.Second},
		{"403", "403", 4, 7 * time.Second},
		{"408", "408", 4, 7 * time.Second},
		{"429", "429", 4, 7 * time.Second},
		{"500", "500", 4, 7 * time.Second},
		{"502", "502", 4, 7 * time.Second},
		{"503", "503", 4, 7 * time.Second},
		{"504", "504", 4, 7 * time.Second},
	}
}

// final are faults that no other try can help.
func final() []apitest.Fault { return []apitest.Fault{"400", "404", "409"} }

func TestFaultsThatPass(t *testing.T) {
	t.Parallel()
	for _, p := range passing() {
		t.Run(p.what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, &apitest.Server{Faults: until(p.fault, 6*time.Second)})
				began := time.Now()
				v, err := preflight.Ask(t.Context(), b.pod(t), hooks(t), preflight.Options{Jitter: shortest})
				require.NoError(t, err)
				require.True(t, v.Allowed())
				require.Equal(t, p.elapsed, time.Since(began))
				w, ok := v.RodeOut()
				require.True(t, ok)
				require.Equal(t, p.elapsed, w.Length)
				require.Equal(t, p.attempts, w.Attempts)
				require.Equal(t, 13, w.Questions)
				require.Error(t, w.Last)
			})
		})
	}
}

func TestFaultsThatNoOtherTryCanHelp(t *testing.T) {
	t.Parallel()
	for _, fault := range final() {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, &apitest.Server{Faults: func(time.Time) apitest.Fault { return fault }})
				began := time.Now()
				v, err := preflight.Ask(t.Context(), b.pod(t), hooks(t), preflight.Options{})
				require.NoError(t, err)
				require.False(t, v.Answered())
				require.Len(t, v.Failed(), 13)
				require.ErrorContains(t, v.Failed()[0].Err, string(fault))
				require.ErrorContains(t, v.Failed()[0].Err, "the server says")
				require.Zero(t, time.Since(began))
				require.Len(t, b.Log(), 13)
			})
		})
	}
}

// TestTheLeastThatIsTried holds for the shortest timeout: at least four tries over 21 s.
func TestTheLeastThatIsTried(t *testing.T) {
	t.Parallel()
	for _, jitter := range []float64{0, 0.5, 1} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, &apitest.Server{Faults: func(time.Time) apitest.Fault { return "503" }})
			began := time.Now()
			v, err := preflight.Ask(t.Context(), b.pod(t), hooks(t), preflight.Options{
				Timeout: time.Second, Jitter: func(preflight.Question) func() float64 { return func() float64 { return jitter } },
			})
			require.NoError(t, err)
			require.Equal(t, 21*time.Second, time.Since(began))
			for _, r := range v.Failed() {
				require.GreaterOrEqual(t, r.Attempts, 4)
			}
			require.Len(t, v.Failed(), 13)
		})
	}
}

func TestAnAPIThatHangsForEverCostsTheTimeoutAndNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &apitest.Server{Faults: func(time.Time) apitest.Fault { return apitest.Hang }})
		began := time.Now()
		v, err := preflight.Ask(t.Context(), b.pod(t), hooks(t), preflight.Options{Timeout: time.Minute, Jitter: shortest})
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(began), time.Minute+preflight.AttemptLimit)
		require.ErrorContains(t, v.Failed()[0].Err, "no answer in 15s")
	})
}

func TestAnInterruptedPreflightEndsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &apitest.Server{Faults: func(time.Time) apitest.Fault { return apitest.Hang }})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		began := time.Now()
		_, err := preflight.Ask(ctx, b.pod(t), hooks(t), preflight.Options{})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

func TestTheServerSaysHowLongToWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &apitest.Server{Faults: func(time.Time) apitest.Fault { return "429" }})
		_, err := b.pod(t).Ask(t.Context(), one(t, "pods: get"))
		class, after := retry.ClassOf(err)
		require.Equal(t, retry.Throttled, class)
		require.Equal(t, time.Second, after)
		require.EqualError(t, err, "429 Too Many Requests: the server says Too Many Requests")
	})
}

// TestATokenThatIsRenewedBetweenTries is picked up by the next try.
func TestATokenThatIsRenewedBetweenTries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		b := newBench(t, &apitest.Server{Token: func(at time.Time) string {
			if at.Before(began.Add(500 * time.Millisecond)) {
				return "token-0" // which the pod has not yet
			}
			return "token-2"
		}})
		time.AfterFunc(1500*time.Millisecond, func() { b.write(t, "token", "token-2\n") })
		v, err := preflight.Ask(t.Context(), b.pod(t), []preflight.Question{one(t, "pods: get")}, preflight.Options{Jitter: shortest})
		require.NoError(t, err)
		require.True(t, v.Allowed())
		var seen []string
		for _, r := range b.Log() {
			seen = append(seen, r.Token)
		}
		require.Equal(t, []string{"token-1", "token-1", "token-2"}, seen)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

func TestATokenThatIsBeingRewritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &apitest.Server{})
		api := b.pod(t)
		b.write(t, "token", "")
		time.AfterFunc(500*time.Millisecond, func() { b.write(t, "token", "token-2") })
		v, err := preflight.Ask(t.Context(), api, []preflight.Question{one(t, "pods: get")}, preflight.Options{Jitter: shortest})
		require.NoError(t, err)
		require.True(t, v.Allowed())
		require.Equal(t, 2, v.Rows[0].Attempts)
		require.ErrorContains(t, v.Rows[0].LastFailure, "is empty")
	})
}

func TestAnotherAuthorityIsNotTrusted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &apitest.Server{})
		stranger, err := apitest.NewAuthority()
		require.NoError(t, err)
		b.write(t, "ca.crt", string(stranger.PEM()))
		_, err = b.pod(t).Ask(t.Context(), one(t, "pods: get"))
		class, _ := retry.ClassOf(err)
		require.Equal(t, retry.Permanent, class)
		require.ErrorContains(t, err, "x509")
		require.Empty(t, b.Log())
	})
}

func TestAPageIsNoAnswer(t *testing.T) {
	t.Parallel()
	for body, status := range map[string]int{"<html>": 200, `{"kind":"SelfSubjectAccessReview"}`: 201, `{"status":{}}`: 201} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, &apitest.Server{Body: body, BodyStatus: status})
			_, err := b.pod(t).Ask(t.Context(), one(t, "pods: get"))
			class, _ := retry.ClassOf(err)
			require.Equal(t, retry.Transient, class)
			require.ErrorContains(t, err, "no Kubernetes API")
		})
	}
}

func TestWhoAsks(t *testing.T) {
	t.Parallel()
	b := newBench(t, &apitest.Server{})
	same, other := b.pod(t), b.pod(t)
	require.Equal(t, same.User(), other.User())
	require.Equal(t, "ci", same.Namespace())
	require.Equal(t, "https://api.example:443", same.Server())
	b.write(t, "token", "another")
	require.NotEqual(t, same.User(), b.pod(t).User())

	// {"iss":"kubernetes","sub":"system:serviceaccount:ci:runner","exp":1} and the same with "exp":2
	b.write(t, "token", "e30.eyJpc3MiOiJrdWJlcm5ldGVzIiwic3ViIjoic3lzdGVtOnNlcnZpY2VhY2NvdW50OmNpOnJ1bm5lciIsImV4cCI6MX0.x")
	first := b.pod(t).User()
	b.write(t, "token", "e30.eyJpc3MiOiJrdWJlcm5ldGVzIiwic3ViIjoic3lzdGVtOnNlcnZpY2VhY2NvdW50OmNpOnJ1bm5lciIsImV4cCI6Mn0.y")
	require.Equal(t, first, b.pod(t).User())
}

func TestNoConfiguration(t *testing.T) {
	t.Parallel()
	_, err := kubeconfig.Source{LookupEnv: env(nil)}.Load()
	require.ErrorIs(t, err, kubeconfig.ErrNone)
}
