package registry

import "github.com/pullonce/pullonce/internal/retry"

// Row is a row of the classification table, as the docs show it.
type Row struct {
	What  string
	Class retry.Class
	Why   string
}

// Rows are the rows of the classification table, those of one name together.
func Rows() []Row {
	var rows []Row
	for _, r := range rules {
		row := Row{r.what, r.class, r.why}
		if len(rows) == 0 || rows[len(rows)-1] != row {
			rows = append(rows, row)
		}
	}
	return rows
}
