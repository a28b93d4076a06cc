package page_test

import (
	"html"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/simulate"
	"github.com/pullonce/pullonce/internal/simulate/page"
)

// answer is a small simulation with some failures.
func answer(t *testing.T) simulate.Answer {
	t.Helper()
	s := simulate.Defaults()
	preset, ok := simulate.FindPreset("quay")
	require.True(t, ok)
	s.Throttle = preset.Throttle
	a, err := simulate.Run(t.Context(), simulate.Options{Setting: s, Preset: &preset, Seed: 1, Runs: 20})
	require.NoError(t, err)
	return a
}

func render(t *testing.T, a simulate.Answer) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, page.Write(&b, a))
	return b.String()
}

var (
	figure    = regexp.MustCompile(`<data data-key="([^"]*)" value="([^"]*)">([^<]*)</data>`)
	reference = regexp.MustCompile(`(?i)<script|<link[^>]*href="[^d]|src=|@import|url\(|<iframe|<object| on[a-z]+=`)
)

func TestTheFiguresAreTheAnswers(t *testing.T) {
	t.Parallel()
	a := answer(t)
	values, texts := map[string]string{}, map[string]string{}
	for _, found := range figure.FindAllStringSubmatch(render(t, a), -1) {
		require.NotContains(t, values, found[1], "each figure stands once")
		values[found[1]], texts[found[1]] = found[2], html.UnescapeString(found[3])
	}
	for _, verdict := range a.Strategies {
		for _, cell := range verdict.Cells() {
			key := string(verdict.Strategy) + "/" + cell.Name
			require.Equal(t, strconv.FormatFloat(cell.Value, 'g', -1, 64), plain(t, values[key]), key)
			require.Equal(t, cell.Text, texts[key], key)
		}
	}
	for _, width := range a.Widths {
		for _, s := range width.Strategies {
			key := "width/" + strconv.Itoa(width.Lanes) + "/" + string(s.Strategy)
			require.Equal(t, strconv.FormatFloat(s.Failed, 'g', -1, 64), plain(t, values[key+"/failed"]), key)
			require.Equal(t, s.Probability.String(), texts[key+"/red"], key)
		}
	}
}

// plain is a number in one notation.
func plain(t *testing.T, number string) string {
	t.Helper()
	value, err := strconv.ParseFloat(number, 64)
	require.NoError(t, err, number)
	return strconv.FormatFloat(value, 'g', -1, 64)
}

func TestThePageNeedsNothingElse(t *testing.T) {
	t.Parallel()
	got := render(t, answer(t))
	require.Empty(t, reference.FindAllString(got, -1))
	require.Contains(t, got, `content="default-src 'none'`)
}

func TestEveryChartHasATableAndAName(t *testing.T) {
	t.Parallel()
	got := render(t, answer(t))
	require.Equal(t, 3, strings.Count(got, `role="img" aria-label="`))
	require.Equal(t, 3, strings.Count(got, "<details>"))
	require.Equal(t, 4, strings.Count(got, `<div class="wide" tabindex="0" role="region" aria-label`), "what scrolls can be reached by keyboard")
	require.Equal(t, 4, strings.Count(got, "<table"))
	require.NotContains(t, got, "NaN")
	require.NotContains(t, got, "Inf")
	require.NotContains(t, got, "ZgotmplZ")
}

func TestAMatrixOfOneLaneHasAPageToo(t *testing.T) {
	t.Parallel()
	s := simulate.Defaults()
	s.Lanes, s.Images = 1, 1
	a, err := simulate.Run(t.Context(), simulate.Options{Setting: s, Seed: 1, Runs: 20, Strategies: []simulate.Strategy{simulate.Prime}})
	require.NoError(t, err)
	got := render(t, a)
	require.NotContains(t, got, "NaN")
	require.Contains(t, got, "a registry: 100 requests per 6h and IP")
}
