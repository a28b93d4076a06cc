package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/report"
)

// pins reads the pin lists of a mode and tells of what they note and warn of.
func (s *session) pins(o pinOptions) (pin.List, error) {
	loaded, err := s.load(o.pinLists)
	if err == nil {
		s.warnOfMutable(loaded)
	}
	return loaded, err
}

// load reads pin lists and tells of what they note. Everything wrong with them is one usage error.
func (s *session) load(o pinLists) (pin.List, error) {
	if len(o.Pins) == 0 && strings.TrimSpace(string(o.Images)) == "" {
		return pin.List{}, usagef("name a pin list with pins, or references with images", "no pins and no images are given")
	}
	loaded, err := pin.Load(pin.Options{FS: s.files(), Paths: o.Pins, Images: string(o.Images), Getenv: s.variable})
	if findings, ok := errors.AsType[pin.Errors](err); ok {
		return pin.List{}, pinErrors{findings}
	}
	if err != nil {
		return pin.List{}, usageError{err: err}
	}
	var notes []report.Problem
	for _, note := range loaded.Notes {
		notes = append(notes, problemOf(note, report.Notice))
	}
	s.sayAll(notes)
	return loaded, nil
}

// lane selects the pins of a lane. Selecting none is no error: one notice says so.
func (s *session) lane(loaded pin.List, lane string) []pin.Pin {
	selected := loaded.Lane(lane)
	if len(selected) == 0 {
		s.say(report.Problem{
			Severity: report.Notice, Kind: "lane", Message: fmt.Sprintf("lane %q needs none of the %d pinned images", lane, len(loaded.Pins)),
		})
	}
	return selected
}

// warnOfMutable warns once of pins that say :latest or have no tag.
func (s *session) warnOfMutable(loaded pin.List) {
	var first *pin.Finding
	var names []string
	for i, w := range loaded.Warnings {
		if first == nil {
			first = &loaded.Warnings[i]
		}
		names = append(names, w.Message)
	}
	if first == nil {
		return
	}
	p := problemOf(*first, report.Warning)
	p.Message = strings.Join(names, "; ")
	s.say(p)
}

// platforms reads the platforms input; an empty one leaves the choice to the plan.
func parsePlatforms(values []string) ([]platform.Platform, error) {
	var parsed []platform.Platform
	for _, value := range values {
		for word := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' || r == ' ' }) {
			p, err := platform.Parse(word)
			if err != nil {
				return nil, usageError{err: err}
			}
			parsed = append(parsed, p)
		}
	}
	return parsed, nil
}
