package plan

import "github.com/pullonce/pullonce/internal/pin"

// Matrix is a value for strategy.matrix of a workflow: one job for each image and platform. GitHub refuses a matrix
// without a row, so a job that uses one asks for a count other than 0 first.
type Matrix struct {
	Include []Row `json:"include"`
}

// Row is one job of a matrix.
type Row struct {
	Name string `json:"name"`
	// Image is the pin as prime needs it, in the text form: the reference and, for an artifact, its type.
	Image    string `json:"image"`
	Key      string `json:"key"`
	Platform string `json:"platform"`
	// Runner is the label of a hosted runner whose own platform this is, where there is one.
	Runner string `json:"runner"`
}

// Matrix has one row for each item.
func (p Plan) Matrix() Matrix {
	rows := make([]Row, len(p.Items))
	for i, item := range p.Items {
		rows[i] = Row{
			Name: item.Name, Image: primed(item.Pin).String(), Key: item.Key,
			Platform: item.Platform.String(), Runner: runner(item.Platform.String()),
		}
	}
	return Matrix{Include: rows}
}

// primed is what prime has to know of a pin whose platform it is told apart: neither who needs it nor what it is called.
func primed(p pin.Pin) pin.Pin { return pin.Pin{Reference: p.Reference, Artifact: p.Artifact} }

// runner is the label of the hosted runner for a platform. A pull needs no machine of that platform, so any will do
// where there is none.
func runner(platform string) string {
	if platform == "linux/arm64" {
		return "ubuntu-24.04-arm"
	}
	return "ubuntu-latest"
}
