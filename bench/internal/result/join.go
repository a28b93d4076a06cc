package result

import (
	"errors"
	"maps"
)

// Join is one report of several, whose cases come one after the other. They must be of one machine, the same programs and
// the same line to the store: figures of others do not stand beside each other.
func Join(reports ...Report) (Report, error) {
	if len(reports) == 0 {
		return Report{}, errors.New("there are no reports")
	}
	joined := reports[0]
	joined.Machine.FileSystems, joined.Images = maps.Clone(joined.Machine.FileSystems), maps.Clone(joined.Images)
	for _, r := range reports[1:] {
		if !joined.comparable(r) {
			return Report{}, errors.New("the reports are of different machines, programs, images or lines to the store")
		}
		maps.Copy(joined.Machine.FileSystems, r.Machine.FileSystems)
		maps.Copy(joined.Images, r.Images)
		joined.Cases = append(joined.Cases[:len(joined.Cases):len(joined.Cases)], r.Cases...)
		joined.Settings.Command += " && " + r.Settings.Command
	}
	joined.Checks = Judge(joined)
	return joined, nil
}

// comparable says whether the figures of another report are of the same things.
func (r Report) comparable(o Report) bool {
	a, b := r.Machine, o.Machine
	same := a.System == b.System && a.Kernel == b.Kernel && a.CPU == b.CPU && a.Cores == b.Cores && a.Memory == b.Memory
	same = same && maps.Equal(r.Programs, o.Programs) && r.Settings.Bandwidth == o.Settings.Bandwidth && r.Settings.Latency == o.Settings.Latency && r.Settings.Kept == o.Settings.Kept
	for name, images := range o.Images {
		mine, ok := r.Images[name]
		for i := range images {
			same = same && (!ok || i < len(mine) && mine[i] == images[i])
		}
	}
	return same
}
