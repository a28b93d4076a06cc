package picture_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/bench/internal/picture"
	"github.com/pullonce/pullonce/bench/internal/result"
	"github.com/pullonce/pullonce/bench/internal/result/resulttest"
)

var update = flag.Bool("update", false, "write testdata/lanes.svg anew")

func TestDraw(t *testing.T) {
	t.Parallel()
	drawn := string(picture.Draw(resulttest.Report()))
	resulttest.Golden(t, filepath.Join("testdata", "lanes.svg"), drawn, *update)
	require.NotContains(t, drawn, "skopeo-daemon", "who has no figures has no bar")
	requireWellFormed(t, drawn)
}

// Foreign text is text in the picture, and nothing in it divides by zero.
func TestDrawEscapes(t *testing.T) {
	t.Parallel()
	r := resulttest.Report()
	r.Machine.CPU = `<script>"&`
	r.Cases = append(r.Cases, result.Case{Mode: "lane", Image: "<b>", Series: []result.Series{resulttest.Series("nobody", 0)}})
	drawn := string(picture.Draw(r))
	requireWellFormed(t, drawn)
	require.NotContains(t, drawn, "<script>")
	require.NotContains(t, drawn, "NaN")
}

func TestDrawOfNothing(t *testing.T) {
	t.Parallel()
	requireWellFormed(t, string(picture.Draw(result.Report{})))
}

func requireWellFormed(t *testing.T, drawn string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(drawn))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}
