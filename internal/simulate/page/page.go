// Package page owns the simulation's answer as one HTML page that needs nothing else: no script, no network, light and dark,
// any width, with a table behind each chart. It knows figures and nothing of how they came about.
package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"

	"github.com/pullonce/pullonce/internal/simulate"
)

//go:embed page.html
var source string

// view is what the template shows.
type view struct {
	Answer  simulate.Answer
	Summary []string
	Charts  []chart
}

// Write writes the page.
func Write(w io.Writer, a simulate.Answer) error {
	t, err := template.New("page").Funcs(template.FuncMap{"number": number}).Parse(source)
	if err != nil {
		return fmt.Errorf("reading the page's template: %w", err)
	}
	v := view{Answer: a, Charts: []chart{failures(a), rates(a), attempts(a)}}
	for _, verdict := range a.Strategies {
		v.Summary = append(v.Summary, sentence(verdict))
	}
	if err := t.Execute(w, v); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// number writes a figure for programs, without an exponent.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// sentence is a verdict in words.
func sentence(v simulate.Verdict) string {
	return fmt.Sprintf("%s of %s lanes fail, a run is red with %s, and the registry sees %s requests.",
		simulate.Count(v.Failed.Mean), simulate.Count(float64(v.Lanes)), v.Probability, simulate.Count(v.Requests))
}
