package simulate

import (
	"slices"
	"time"

	"github.com/pullonce/pullonce/internal/pace"
)

// Preset is the limit of a public registry, as far as it is known.
type Preset struct {
	// Name is how it is chosen, Title how it is shown.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Throttle is the limit; the number of IPs is an ordinary one and no fact about the registry.
	Throttle Throttle `json:"throttle"`
	// Source is where the limit stands, and Read the day on which it was read.
	Source string `json:"source"`
	Read   string `json:"read"`
	// Assumed is what nobody publishes and the preset assumes.
	Assumed string `json:"assumed"`
	// Exempt is who is said not to be counted; "" is nobody.
	Exempt string `json:"exempt,omitempty"`
}

// read is when the sources were read.
const read = "2026-11-30"

// hosted is what is said of the Hub's limit and GitHub's runners. It has been doubted where it mattered:
// https://github.com/orgs/community/discussions/209949.
const hosted = "GitHub says that public images pulled by its hosted runners are exempt; self-hosted runners are not"

// Presets are the registries that are known, the default first.
func Presets() []Preset {
	return []Preset{
		{
			Name: "hub", Title: "Docker Hub, anonymous",
			Throttle: Throttle{Requests: 100, Window: 6 * time.Hour, Burst: 100, IPs: 8},
			Source:   "https://docs.docker.com/docker-hub/usage/pulls/", Read: read,
			Assumed: "the quota comes back evenly over the window; an index and its manifest count one each",
			Exempt:  hosted,
		},
		{
			Name: "hub-authenticated", Title: "Docker Hub, personal account",
			Throttle: Throttle{Requests: 200, Window: 6 * time.Hour, Burst: 200, IPs: 1},
			Source:   "https://docs.docker.com/docker-hub/usage/pulls/", Read: read,
			Assumed: "the account is one bucket for all lanes, from whichever IP; the quota comes back evenly over the window",
			Exempt:  hosted,
		},
		{
			Name: "ecr-public", Title: "Amazon ECR Public, anonymous",
			Throttle: Throttle{Requests: 1, Window: time.Second, Burst: 10, IPs: 8, Interval: pace.ECRPublic},
			Source:   "https://docs.aws.amazon.com/AmazonECR/latest/public/public-service-quotas.html", Read: read,
			Assumed: "a burst of ten; requests for documents count, those for layers do not; the monthly amount of data is left out",
		},
		{
			Name: "ghcr", Title: "GitHub Container Registry",
			Throttle: Throttle{Requests: 44_000, Window: time.Minute, Burst: 733, IPs: 8, RetryAfter: true, CountBlobs: true},
			Source:   "https://github.com/dependabot/cli/issues/380 (an answer of the registry; the limit is not documented)", Read: read,
			Assumed: "it counts every request by IP, with a burst of a second's worth; others behind the same IPs are what makes it felt",
		},
		{
			Name: "quay", Title: "Quay.io",
			Throttle: Throttle{Requests: 20, Window: time.Second, Burst: 50, IPs: 8, CountBlobs: true},
			Source:   "https://access.redhat.com/solutions/6218921 (a few requests a second, with bursts)", Read: read,
			Assumed: "twenty requests a second and a burst of fifty: the source has no figures",
		},
	}
}

// FindPreset finds a preset by its name.
func FindPreset(name string) (Preset, bool) {
	presets := Presets()
	i := slices.IndexFunc(presets, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		return Preset{}, false
	}
	return presets[i], true
}
