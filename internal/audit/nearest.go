package audit

import (
	"cmp"
	"slices"
	"strconv"
	"unicode"

	"github.com/pullonce/pullonce/internal/reference"
)

// nearest is the pin whose version is nearest to that of ref; of equals, the first.
func nearest(candidates []*pinned, ref reference.Reference) *pinned {
	best := candidates[0]
	for _, p := range candidates[1:] {
		if closeness(p.Reference.Tag(), ref.Tag()).compare(closeness(best.Reference.Tag(), ref.Tag())) > 0 {
			best = p
		}
	}
	return best
}

// likeness is how close two tags are: by the parts that they have in common at their start, then by how far apart the
// first numbers are in which they differ, then by the parts in common at their end, as in "-alpine".
type likeness struct {
	head     int
	distance uint64
	tail     int
}

func (l likeness) compare(other likeness) int {
	return cmp.Or(cmp.Compare(l.head, other.head), cmp.Compare(other.distance, l.distance), cmp.Compare(l.tail, other.tail))
}

func closeness(a, b string) likeness {
	x, y := parts(a), parts(b)
	l := likeness{distance: 1 << 63}
	for l.head < min(len(x), len(y)) && x[l.head] == y[l.head] {
		l.head++
	}
	x, y = x[l.head:], y[l.head:]
	if len(x) == 0 && len(y) == 0 {
		l.distance = 0
	}
	if len(x) > 0 && len(y) > 0 {
		m, errM := strconv.ParseUint(x[0], 10, 62)
		n, errN := strconv.ParseUint(y[0], 10, 62)
		if errM == nil && errN == nil {
			l.distance = max(m, n) - min(m, n)
		}
	}
	slices.Reverse(x)
	slices.Reverse(y)
	for l.tail < min(len(x), len(y)) && x[l.tail] == y[l.tail] {
		l.tail++
	}
	return l
}

// parts are the runs of digits and of other characters in a tag.
func parts(tag string) []string {
	var found []string
	start := 0
	for i, r := range tag {
		if i > 0 && unicode.IsDigit(r) != unicode.IsDigit(rune(tag[i-1])) {
			found = append(found, tag[start:i])
			start = i
		}
	}
	return append(found, tag[start:])
}
