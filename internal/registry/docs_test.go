package registry_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pullonce/pullonce/internal/goldentest"
	"github.com/pullonce/pullonce/internal/registry"
)

const docsIntro = `# Faults and outcomes

What a pull makes of a registry in trouble. This page is written by the test that checks it:
` + "`go test ./internal/registry -run Docs -update`" + `.

## Classes

The first row that applies decides. *Throttled* and *transient* faults are tried again until the timeout, *uncertain* ones
three times in a row with a fresh token each, *permanent* ones not at all.

`

const docsOutcomes = `
## Outcomes

A pull of an image with two layers behind an index, on the default schedule of ten minutes, from a registry that hands out
anonymous tokens. Waits are at their shortest, 2.5 s, 5 s, 10 s, 15 s; chance makes each up to twice as long. After a throttle
all requests to the host keep a distance of 250 ms for a while.

`

// TestDocsSayWhatTheTablesSay holds the page to the tables that the other tests hold the code to.
func TestDocsSayWhatTheTablesSay(t *testing.T) {
	t.Parallel()
	page := docsIntro + classTable() + docsOutcomes + faultTable()
	path := filepath.Join("..", "..", "docs", "faults.md")
	goldentest.Equal(t, path, page)
}

func classTable() string {
	var b strings.Builder
	b.WriteString("| What came | Class | Why |\n|---|---|---|\n")
	for _, r := range registry.Rows() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.What, r.Class, r.Why)
	}
	return b.String()
}

func faultTable() string {
	var b strings.Builder
	b.WriteString("| Stage | Fault | Outcome | Attempts | After |\n|---|---|---|---|---|\n")
	for _, f := range faults() {
		result := "arrives"
		if f.fails != "" {
			result = "fails, " + f.fails
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %s |\n", f.stage, f.what, result, f.attempts, elapsed(f.after))
	}
	return b.String()
}

func elapsed(d time.Duration) string {
	if d == 0 {
		return "at once"
	}
	return d.String()
}
