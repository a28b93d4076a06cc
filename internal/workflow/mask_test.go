package workflow_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/workflow"
)

func TestMaskReachesTheRunnerUnchanged(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"simple-one", "with:colon,and%25percent", "100%", "::odd::", "line one\nline two\r\nline three", " padded "} {
		t.Run(secret, func(t *testing.T) {
			t.Parallel()
			r, log := newRunner(nil)
			r.Mask(secret)
			plain, commands := readLog(log.String())
			require.Empty(t, plain)
			require.Equal(t, command{name: "add-mask", data: secret, properties: map[string]string{}}, commands[0])
			for line := range strings.FieldsFuncSeq(secret, func(c rune) bool { return c == '\r' || c == '\n' }) {
				require.Contains(t, commands, command{name: "add-mask", data: strings.TrimSpace(line), properties: map[string]string{}})
			}
		})
	}
}

func TestNoFormOfASecretIsWritten(t *testing.T) {
	t.Parallel()
	const secret = `pa:ss,w%rd/"<##[x]`
	quoted, err := json.Marshal(secret)
	require.NoError(t, err)
	forms := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), string(quoted[1 : len(quoted)-1]),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret)),
	}
	summary := filepath.Join(t.TempDir(), "summary")
	r, log := newRunner(map[string]string{"GITHUB_STEP_SUMMARY": summary, "RUNNER_DEBUG": "1"})
	r.Mask(secret)
	log.Reset()
	for _, form := range forms {
		r.Printf("GET https://x.test/?sig=%s", form)
		r.Debug("token " + form)
		r.Group("using " + form)
		r.Annotate(workflow.Annotation{Level: workflow.Error, Title: form, File: form, Message: "denied: " + form})
		require.NoError(t, r.Summary(form, []string{form}, form))
	}
	written, err := os.ReadFile(summary)
	require.NoError(t, err)
	for _, form := range forms {
		require.NotContains(t, log.String(), form)
		require.NotContains(t, string(written), form)
	}
	require.Contains(t, log.String(), "GET https://x.test/?sig=***\n")
	require.NotContains(t, log.String(), "w%25rd")
}

func TestASecretIsNotCutBeforeItIsMasked(t *testing.T) {
	t.Parallel()
	r, log := newRunner(nil)
	r.Mask("super-secret-value")
	log.Reset()
	r.Annotate(workflow.Annotation{Level: workflow.Error, Message: strings.Repeat("a", 4080) + "super-secret-value" + strings.Repeat("b", 99)})
	require.NotContains(t, log.String(), "super")
}

func TestTheLongestSecretIsMaskedFirst(t *testing.T) {
	t.Parallel()
	r, log := newRunner(nil)
	r.Mask("abcd")
	r.Mask("abcd-efgh")
	log.Reset()
	r.Printf("abcd-efgh and abcd")
	require.Equal(t, "*** and ***\n", log.String())
}

func TestASecretIsMaskedOnce(t *testing.T) {
	t.Parallel()
	r, log := newRunner(nil)
	r.Mask("abcd")
	log.Reset()
	r.Mask("abcd")
	r.Mask("")
	r.Mask(" \n ")
	require.Empty(t, log.String())
}

func TestShortLinesOfASecretAreNotMaskedByThemselves(t *testing.T) {
	t.Parallel()
	r, log := newRunner(nil)
	r.Mask("{\n  \"key\": \"value\"\n}")
	log.Reset()
	r.Printf(`{"a":1} "key": "value"`)
	require.Equal(t, "{\"a\":1} ***\n", log.String())
}

func TestScrubIsForTextThatGoesElsewhere(t *testing.T) {
	t.Parallel()
	r, _ := newRunner(nil)
	require.Equal(t, "hunter2!", r.Scrub("hunter2!"))
	r.Mask("hunter2!")
	require.Equal(t, "sent *** as ***", r.Scrub("sent hunter2! as hunter2%21"))
}

// The marks are those of the packages that cut before anything is masked: in the middle, and at the end.
func TestWhatACutLeftOfASecretIsMasked(t *testing.T) {
	t.Parallel()
	const secret = "SECRETpassword:first/last"
	r, _ := newRunner(nil)
	r.Mask(secret)
	encoded := base64.StdEncoding.EncodeToString([]byte(secret))
	for name, test := range map[string]struct{ in, want string }{
		"its beginning, in the middle": {"/bin/false aaaSECRETpas … bbb", "/bin/false aaa*** … bbb"},
		"its end, in the middle":       {"aaa … first/last bbb", "aaa … *** bbb"},
		"both":                         {"aaa SECRETpass … word:first/last bbb", "aaa *** … *** bbb"},
		"its beginning, at the end":    {"aaa SECRETpass…", "aaa ***…"},
		"before a mark of ours":        {"aaa SECRETpass … (cut)", "aaa *** … (cut)"},
		"all but a byte":               {"aSECRETpassword:first/las…", "a***…"},
		"all of it":                    {"a" + secret + "…" + secret + "b", "a***…***b"},
		"of a form of it":              {"auth " + encoded[:10] + "…", "auth ***…"},
		"the end of a form of it":      {"… " + encoded[len(encoded)-10:] + " x", "… *** x"},
		"between two marks":            {"…first/last, SECRETp…", "…***, ***…"},
		"a part between two marks":     {"a … sword:first/last … b", "a … *** … b"},
		"too little to tell":           {"aaa SEC… ast", "aaa SEC… ast"},
		"no beginning, no end":         {"aaa password:f…", "aaa password:f…"},
		"no cut":                       {"aaa SECRETpass", "aaa SECRETpass"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, r.Scrub(test.in))
		})
	}
}

func TestASecretWithSpacesIsMaskedAtACut(t *testing.T) {
	t.Parallel()
	r, _ := newRunner(nil)
	r.Mask("correct horse battery staple")
	require.Equal(t, "a ***  … *** z", r.Scrub("a correct horse  … y staple z"))
	require.Equal(t, "a *** …", r.Scrub("a correct …"))
}

// The race detector is what fails here.
func TestASecretMayBecomeKnownWhileTheSummaryIsWritten(t *testing.T) {
	t.Parallel()
	summary := filepath.Join(t.TempDir(), "summary")
	r, _ := newRunner(map[string]string{"GITHUB_STEP_SUMMARY": summary})
	r.Mask("first-secret")
	var both sync.WaitGroup
	both.Go(func() { r.Mask("second-secret") })
	err := r.Summary("first-secret\n", nil, "")
	both.Wait()
	require.NoError(t, err)
	written, err := os.ReadFile(summary)
	require.NoError(t, err)
	require.Equal(t, "***\n", string(written))
}
