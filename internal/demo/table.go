package demo

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/pullonce/pullonce/internal/report"
)

// Check says what is wrong where the primed half did not keep the promise: no lane fails, and none asks the registry.
func (r Result) Check() error {
	switch {
	case r.Primed.Failed > 0:
		return fmt.Errorf("%d of %d primed lanes failed", r.Primed.Failed, r.Primed.Lanes)
	case r.Primed.ByLanes > 0:
		return fmt.Errorf("primed lanes made %d requests to the registry", r.Primed.ByLanes)
	case r.Primed.Requests == 0:
		return errors.New("the registry saw no prime")
	}
	return nil
}

// WriteTable writes both halves side by side for a person.
func (r Result) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "\n%d lanes × %d images from one IP; the registry allows it %d manifest requests at once and %d a second after that.\n\n",
		r.Alone.Lanes, r.Images, throttle.Burst, throttle.Requests)
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "\tlanes failed\t429s\trequests\tof them by lanes\ttime\t")
	for _, half := range []Half{r.Alone, r.Primed} {
		fmt.Fprintf(tw, "%s\t%d of %d\t%d\t%d\t%d\t%s\t\n", half.Name, half.Failed, half.Lanes, half.Throttled, half.Requests,
			half.ByLanes, report.Duration(half.Elapsed))
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}
