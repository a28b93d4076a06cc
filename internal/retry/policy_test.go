package retry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/retry"
)

func TestNext(t *testing.T) {
	t.Parallel()
	const s, m = time.Second, time.Minute
	for title, c := range map[string]struct {
		policy retry.Policy
		try    retry.Try
		wait   time.Duration
		reason retry.Reason
	}{
		"first, whole":                      {try: retry.Try{Attempt: 1, Class: retry.Transient, Jitter: 1}, wait: 5 * s},
		"first, half":                       {try: retry.Try{Attempt: 1, Class: retry.Transient, Jitter: 0}, wait: 2500 * time.Millisecond},
		"second":                            {try: retry.Try{Attempt: 2, Class: retry.Transient, Jitter: 1}, wait: 10 * s},
		"third":                             {try: retry.Try{Attempt: 3, Class: retry.Transient, Jitter: 1}, wait: 20 * s},
		"fourth meets the longest":          {try: retry.Try{Attempt: 4, Class: retry.Transient, Jitter: 1}, wait: 30 * s},
		"thousandth":                        {try: retry.Try{Attempt: 1000, Class: retry.Transient, Jitter: 1}, wait: 30 * s},
		"own figures":                       {retry.Policy{First: 1, Max: 3}, retry.Try{Attempt: 2, Class: retry.Transient, Jitter: 1}, 2, ""},
		"permanent":                         {try: retry.Try{Attempt: 1, Class: retry.Permanent}, reason: retry.CannotHelp},
		"second refusal":                    {try: retry.Try{Attempt: 2, Refusals: 2, Class: retry.Uncertain, Jitter: 1}, wait: 10 * s},
		"third refusal":                     {try: retry.Try{Attempt: 3, Refusals: 3, Class: retry.Uncertain}, reason: retry.Refused},
		"a short hint changes little":       {try: retry.Try{Attempt: 4, Class: retry.Throttled, Hint: s, Jitter: 0}, wait: 15 * s},
		"a hint is a minimum":               {try: retry.Try{Attempt: 1, Class: retry.Throttled, Hint: m, Jitter: 0}, wait: m},
		"a hint is spread upwards":          {try: retry.Try{Attempt: 1, Class: retry.Throttled, Hint: m, Jitter: 1}, wait: m + 2500*time.Millisecond},
		"a hint counts for transient too":   {try: retry.Try{Attempt: 1, Class: retry.Transient, Hint: m}, wait: m},
		"a throttle waits for a second":     {retry.Policy{First: 2, Max: 2}, retry.Try{Attempt: 1, Class: retry.Throttled, Hint: 880092}, s, ""},
		"hint past the deadline":            {try: retry.Try{Attempt: 1, Elapsed: 9 * m, Class: retry.Throttled, Hint: m + 1}, reason: retry.AskedTooFar},
		"hint up to the deadline":           {try: retry.Try{Attempt: 1, Elapsed: 9 * m, Class: retry.Throttled, Hint: m, Jitter: 1}, wait: m},
		"the last wait is cut":              {try: retry.Try{Attempt: 9, Elapsed: 10*m - 20*s, Class: retry.Transient, Jitter: 1}, wait: 20 * s},
		"so that a try fits":                {try: retry.Try{Attempt: 9, Elapsed: 10*m - 20*s, Took: 4 * s, Class: retry.Transient, Jitter: 1}, wait: 16 * s},
		"work does not count as a try":      {try: retry.Try{Attempt: 9, Elapsed: 10*m - 20*s, Took: 9 * m, Class: retry.Transient, Jitter: 1}, wait: 5 * s},
		"no try fits":                       {try: retry.Try{Attempt: 9, Elapsed: 10*m - 15*s, Took: 15 * s, Class: retry.Transient}, reason: retry.TimeIsUp},
		"a wait too short to matter":        {try: retry.Try{Attempt: 9, Elapsed: 10*m - 3*s + 1, Class: retry.Transient}, reason: retry.TimeIsUp},
		"a cut wait is no less than asked":  {try: retry.Try{Attempt: 9, Elapsed: 10*m - 20*s, Took: 4 * s, Hint: 17 * s, Class: retry.Throttled}, reason: retry.TimeIsUp},
		"the deadline has passed":           {try: retry.Try{Attempt: 9, Elapsed: 11 * m, Hint: s, Class: retry.Throttled}, reason: retry.TimeIsUp},
		"own timeout":                       {retry.Policy{Timeout: 3 * s}, retry.Try{Attempt: 1, Class: retry.Transient, Jitter: 1}, 3 * s, ""},
		"permanent before the deadline was": {try: retry.Try{Attempt: 1, Elapsed: 11 * m, Class: retry.Permanent}, reason: retry.CannotHelp},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			wait, reason := c.policy.Next(c.try)
			require.Equal(t, c.reason, reason)
			require.Equal(t, c.wait, wait)
		})
	}
}
