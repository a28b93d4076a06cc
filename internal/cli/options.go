package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/pullonce/pullonce/internal/cachekey"
	"github.com/pullonce/pullonce/internal/pin"
)

// The modes whose name matters to the code.
const (
	modeLoad  = "load"
	modeRetry = "retry"
)

// grammar is the whole command line. A command with outputs is a mode of the action too; fails says when it does, for the
// mode table. A flag with action:"-" is no input.
type grammar struct {
	Plan      planCommand      `cmd:"" outputs:"images,keys,key,path,matrix,count" fails:"the pin list is wrong" help:"Say which images, keys and matrix the pin list stands for."`
	Prime     primeCommand     `cmd:"" outputs:"cache-hit,key,keys,path,count,digests,pulled,result,report" fails:"an image is not in the store at the end" help:"Pull every pinned image once and put it into the store."`
	Load      loadCommand      `cmd:"" outputs:"cache-hit,key,keys,path,count,digests,loaded,missed,result,report" fails:"it is used wrong, or an image is missing and on-miss is fail" help:"Load the pinned images from the store into the lane's targets."`
	Gate      gateCommand      `cmd:"" outputs:"result,failed,skipped" fails:"a job that must have succeeded did not" help:"Judge the jobs of a run: a failed prime with skipped lanes is red."`
	Audit     auditCommand     `cmd:"" outputs:"findings,result" fails:"there is a finding of a kind in fail-on" help:"Compare what rendered manifests, Compose files and Dockerfiles pull with the pin list."`
	Preflight preflightCommand `cmd:"" outputs:"allowed,result" fails:"a permission is denied, or the API never answered" help:"Ask a cluster's API whether the job may do what it will do, through windows in which it does not answer."`
	Inspect   inspectCommand   `cmd:"" help:"List and verify what a store holds."`
	Prune     pruneCommand     `cmd:"" help:"Delete what no pin list needs from a store."`
	Demo      demoCommand      `cmd:"" help:"Show the main job on embedded parts: no Docker, no network."`
	Simulate  simulateCommand  `cmd:"" help:"Show what a matrix does against a registry's limit, in virtual time."`
	Retry     retryCommand     `cmd:"" help:"Run a command, and again while it fails, on the schedule that pulls are on."`
	Version   versionCommand   `cmd:"" help:"Print the version."`

	VersionFlag kong.VersionFlag `name:"version" action:"-" help:"Print the version."`
}

// pinLists say which images are meant; every mode that needs images has them.
type pinLists struct {
	Pins   list `placeholder:"FILE" help:"Pin lists: paths or globs, one a line, each may carry a selector after '#'."`
	Images text `placeholder:"REF" help:"Images inline, one reference a line with optional lanes=, platforms=, name=, nodes= and type=."`
}

// pinOptions say which images are meant and how their keys are made.
type pinOptions struct {
	pinLists
	KeySalt string `placeholder:"TEXT" help:"Text that goes into every key, to set entries apart."`
}

// layersOption says how the layers of entries are compressed, which is part of their keys.
type layersOption struct {
	Layers string `default:"exact" enum:"exact,zstd" help:"How layers are kept: exact (as the registry has them) or zstd (compressed anew in prime, for lanes that load faster; such images are to be run, not saved or pushed on)."`
}

// format is that of the entries.
func (o layersOption) format() cachekey.Format {
	if o.Layers == "zstd" {
		return cachekey.V2
	}
	return cachekey.V1
}

// storeOption says where entries live.
type storeOption struct {
	Store string `default:"auto" placeholder:"STORE" help:"Where entries live: auto (the Actions cache in a workflow), actions, dir:PATH or oci://REGISTRY/REPOSITORY."`
}

// registryOptions say how registries are asked.
type registryOptions struct {
	Mirrors list `placeholder:"HOST=MIRROR,…" help:"Mirrors to ask, one host a line, as in docker.io=mirror.example."`
}

// list is an input of several values: one a line, or a JSON array of strings. A flag may also be repeated.
type list []string

var _ kong.MapperValue = (*list)(nil)

// Decode implements kong.MapperValue.
func (l *list) Decode(ctx *kong.DecodeContext) error {
	var raw string
	if err := ctx.Scan.PopValueInto("list", &raw); err != nil {
		return err
	}
	values, err := parseList(raw)
	if err != nil {
		return err
	}
	*l = append(append(list{}, *l...), values...) // not nil, even of nothing: it was given
	return nil
}

// describeList adds to the help of a flag that takes several values how to give them.
func describeList(value *kong.Value) string {
	help := kong.DefaultHelpValueFormatter(value)
	if value.Flag == nil || !value.Target.IsValid() {
		return help
	}
	switch value.Target.Addr().Interface().(type) {
	case *list, *text:
		return strings.TrimSuffix(help, ".") + "; the flag may be repeated."
	default:
		return help
	}
}

// oneEach is the hint for a value that is wrong: where it holds a comma, somebody meant several.
func oneEach(value, otherwise string) string {
	if strings.Contains(value, ",") {
		return pin.OneEach
	}
	return otherwise
}

func parseList(raw string) ([]string, error) {
	if trimmed := strings.TrimSpace(raw); strings.HasPrefix(trimmed, "[") {
		var values []string
		if err := json.Unmarshal([]byte(trimmed), &values); err != nil {
			return nil, fmt.Errorf("reading a JSON list of strings: %w", err)
		}
		return values, nil
	}
	var values []string
	for line := range strings.Lines(raw) {
		if line = strings.TrimSpace(line); line != "" {
			values = append(values, line)
		}
	}
	return values, nil
}

// text is an input of several lines that somebody else parses. A flag may be repeated.
type text string

var _ kong.MapperValue = (*text)(nil)

// Decode implements kong.MapperValue.
func (t *text) Decode(ctx *kong.DecodeContext) error {
	var raw string
	if err := ctx.Scan.PopValueInto("text", &raw); err != nil {
		return err
	}
	if *t != "" {
		raw = string(*t) + "\n" + raw
	}
	*t = text(raw)
	return nil
}

// span is a time span in Go's notation, and in days, as in "7d". "0" is none.
type span time.Duration

var _ kong.MapperValue = (*span)(nil)

// Decode implements kong.MapperValue.
func (d *span) Decode(ctx *kong.DecodeContext) error {
	var raw string
	if err := ctx.Scan.PopValueInto("duration", &raw); err != nil {
		return err
	}
	parsed, err := parseSpan(raw)
	if err != nil {
		return err
	}
	*d = span(parsed)
	return nil
}

// wait is a time span of more than 0: to what waits, 0 would not be none, but a default that nobody asked for.
type wait time.Duration

var _ kong.MapperValue = (*wait)(nil)

// Decode implements kong.MapperValue.
func (d *wait) Decode(ctx *kong.DecodeContext) error {
	var given span
	if err := given.Decode(ctx); err != nil {
		return err
	}
	if given == 0 {
		return errors.New("it must be more than 0: leave it out for the default")
	}
	*d = wait(given)
	return nil
}

func parseSpan(raw string) (time.Duration, error) {
	value, unit := raw, time.Duration(0)
	if days, ok := strings.CutSuffix(raw, "d"); ok {
		value, unit = days+"h", 24
	}
	parsed, err := time.ParseDuration(value)
	if err != nil || parsed < 0 || unit > 0 && parsed > math.MaxInt64/unit {
		return 0, fmt.Errorf("invalid time span %q: write it as in 90s, 10m, 1h30m or 7d", raw)
	}
	if unit > 0 {
		parsed *= unit
	}
	return parsed, nil
}

// parseBytes reads a size in decimal units, as in "10GB"; a bare number is bytes.
func parseBytes(raw string) (int64, error) {
	value := strings.ToUpper(strings.ReplaceAll(raw, " ", ""))
	unit := int64(1)
	for suffix, factor := range map[string]int64{"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12} {
		if number, ok := strings.CutSuffix(value, suffix); ok {
			value, unit = number, factor
		}
	}
	number, err := strconv.ParseFloat(value, 64)
	if err != nil || number < 0 || number*float64(unit) > 1e18 {
		return 0, usagef("write it as in 10GB or 500MB", "invalid size %q", raw)
	}
	return int64(number * float64(unit)), nil
}
