package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/cachekey"
	"github.com/pullonce/pullonce/internal/goldentest"
	"github.com/pullonce/pullonce/internal/pin"
	"github.com/pullonce/pullonce/internal/plan"
	"github.com/pullonce/pullonce/internal/platform"
	"github.com/pullonce/pullonce/internal/reference"
)

var (
	amd64 = platform.Platform{OS: "linux", Architecture: "amd64"}
	arm64 = platform.Platform{OS: "linux", Architecture: "arm64"}
	armv7 = platform.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}
)

const (
	one = "@sha256:1111111111111111111111111111111111111111111111111111111111111111"
	two = "@sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

func pins(t *testing.T, lines string) []pin.Pin {
	t.Helper()
	list, err := pin.Load(pin.Options{Images: lines})
	require.NoError(t, err)
	return list.Pins
}

func names(p plan.Plan) []string {
	var all []string
	for _, item := range p.Items {
		all = append(all, item.Name)
	}
	return all
}

func TestPlanAsOutputs(t *testing.T) {
	t.Parallel()
	p := plan.Make(pins(t, "redis:7 lanes=a\nghcr.io/go-gitea/gitea:1.22 name=gitea platforms=linux/arm64/v8\nalpine"+one),
		plan.Options{Platforms: []platform.Platform{amd64, armv7}, Salt: "s"})
	got, err := json.MarshalIndent(struct {
		Images, Keys []string
		Key, Path    string
		Count        int
		Matrix       plan.Matrix
	}{p.Images(), p.Keys(), p.Key(), p.Path(), p.Count(), p.Matrix()}, "", " ")
	require.NoError(t, err)
	got = append(got, '\n')
	goldentest.Equal(t, "testdata/outputs.golden", string(got))
}

func TestPlanAsJSON(t *testing.T) {
	t.Parallel()
	p := plan.Make(pins(t, "redis:7 lanes=a name=cache"), plan.Options{Platforms: []platform.Platform{amd64}})
	got, err := json.Marshal(p)
	require.NoError(t, err)
	require.JSONEq(t, `{"items": [{
		"pin": {"file": "images input", "line": 1, "column": 1, "reference": "docker.io/library/redis:7", "lanes": ["a"], "name": "cache"},
		"platform": "linux/amd64", "key": "`+p.Key()+`", "name": "cache"
	}]}`, string(got))
}

func TestKeyAndPathOfNoneOneAndSeveral(t *testing.T) {
	t.Parallel()
	none := plan.Make(nil, plan.Options{})
	require.Zero(t, none.Count())
	require.Empty(t, none.Key())
	require.Empty(t, none.Path())
	empty, err := json.Marshal([]any{none.Images(), none.Keys(), none.Matrix()})
	require.NoError(t, err)
	require.JSONEq(t, `[[], [], {"include": []}]`, string(empty), "lists are lists, never null")

	single := plan.Make(pins(t, "redis:7"), plan.Options{Platforms: []platform.Platform{arm64}, Salt: "s"})
	key := cachekey.Key(reference.MustParse("redis:7"), arm64, "s")
	require.Equal(t, []string{key}, single.Keys())
	require.Equal(t, key, single.Key())
	require.Equal(t, ".pullonce/"+key, single.Path())

	several := plan.Make(pins(t, "redis:7\npostgres:16"), plan.Options{})
	require.Equal(t, cachekey.Set(several.Keys()), several.Key())
	require.Equal(t, ".pullonce", several.Path())
	turned := plan.Make(pins(t, "postgres:16 lanes=x name=y # comment\n\ndocker.io/redis:7"), plan.Options{})
	require.Equal(t, several.Key(), turned.Key(), "neither order nor lanes, names and spelling count")
}

func TestPlatformsOfAPinWinOverThoseOfTheRun(t *testing.T) {
	t.Parallel()
	list := pins(t, "redis:7\npostgres:16 platforms=linux/arm64,linux/arm")
	p := plan.Make(list, plan.Options{Platforms: []platform.Platform{amd64, {OS: "linux", Architecture: "arm64", Variant: "v8"}, arm64}})
	var got []string
	for _, item := range p.Items {
		got = append(got, item.Pin.Reference.Base()+" "+item.Platform.String())
	}
	require.Equal(t, []string{"redis linux/amd64", "redis linux/arm64", "postgres linux/arm64", "postgres linux/arm/v7"}, got, "one item a key")
	require.Equal(t, []string{"docker.io/library/redis:7", "docker.io/library/postgres:16"}, p.Images(), "each image once")

	host := plan.Make(list[:1], plan.Options{})
	require.Equal(t, platform.Host(), host.Items[0].Platform)
}

func TestFormatAndSaltGoIntoTheKeys(t *testing.T) {
	t.Parallel()
	list, seen := pins(t, "redis:7"), map[string]bool{}
	for _, opts := range []plan.Options{{}, {Salt: "s"}, {Format: cachekey.V2}, {Format: cachekey.V2, Salt: "s"}} {
		opts.Platforms = []platform.Platform{amd64}
		seen[plan.Make(list, opts).Key()] = true
	}
	require.Len(t, seen, 4)
}

func TestNamesSayAsMuchAsTellsThemApart(t *testing.T) {
	t.Parallel()
	both := []platform.Platform{amd64, arm64}
	for _, c := range []struct {
		name, pins string
		platforms  []platform.Platform
		want       []string
	}{
		{"the familiar reference", "redis:7\nghcr.io/a/b:1\nalpine:3" + one, nil, []string{"redis:7", "ghcr.io/a/b:1", "alpine:3"}},
		{"the pin's own name", "redis:7 name=cache", nil, []string{"cache"}},
		{"with platforms", "redis:7\nb:1 platforms=linux/amd64", both, []string{"redis:7 linux/amd64", "redis:7 linux/arm64", "b:1"}},
		{"with digests", "redis" + one + "\nredis" + two, both[:1], []string{"redis" + one + " linux/amd64", "redis" + two + " linux/amd64"}},
		{"one name for two", "redis:7 name=db\npostgres:16 name=db", both[:1], []string{"db redis:7 linux/amd64", "db postgres:16 linux/amd64"}},
		{"a name that is another's reference", "redis:7\npostgres:16 name=redis:7", both[:1],
			[]string{"redis:7 linux/amd64", "redis:7 postgres:16 linux/amd64"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := plan.Make(pins(t, c.pins), plan.Options{Platforms: c.platforms})
			require.Equal(t, c.want, names(p))
		})
	}
}

func TestARowOfTheMatrixPrimesItsPin(t *testing.T) {
	t.Parallel()
	list := pins(t, "redis:7 lanes=a name=cache nodes=worker\nlocalhost/chart:1 lanes=helm type=artifact\nb:1"+one+" platforms=linux/arm64")
	p := plan.Make(list, plan.Options{Platforms: []platform.Platform{amd64, arm64}})
	var images []string
	for i, row := range p.Matrix().Include {
		images = append(images, row.Image)
		own := platform.Platform{}
		require.NoError(t, own.UnmarshalText([]byte(row.Platform)))
		again := plan.Make(pins(t, row.Image), plan.Options{Platforms: []platform.Platform{own}})
		require.Equal(t, []string{p.Items[i].Key}, again.Keys(), row.Image)
		require.Equal(t, p.Items[i].Pin.Artifact, again.Items[0].Pin.Artifact, row.Image)
	}
	require.Equal(t, []string{
		"docker.io/library/redis:7", "docker.io/library/redis:7", "localhost/chart:1 type=artifact", "localhost/chart:1 type=artifact",
		"docker.io/library/b:1" + one,
	}, images)
}

func TestRunnersOfTheMatrix(t *testing.T) {
	t.Parallel()
	p := plan.Make(pins(t, "a:1"), plan.Options{Platforms: []platform.Platform{amd64, arm64, armv7, {OS: "windows", Architecture: "amd64"}}})
	var runners []string
	for _, row := range p.Matrix().Include {
		runners = append(runners, row.Platform+" on "+row.Runner)
	}
	require.Equal(t, []string{
		"linux/amd64 on ubuntu-latest", "linux/arm64 on ubuntu-24.04-arm", "linux/arm/v7 on ubuntu-latest", "windows/amd64 on ubuntu-latest",
	}, runners)
}
