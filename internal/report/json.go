package report

import (
	"encoding/json"
	"fmt"
	"io"
)

// WriteJSON writes the report as one indented JSON document. Lists are never null.
func (r Report) WriteJSON(w io.Writer) error {
	if r.Images == nil {
		r.Images = []Image{}
	}
	if r.Problems == nil {
		r.Problems = []Problem{}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
