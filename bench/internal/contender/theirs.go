//go:build linux

package contender

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pullonce/pullonce/bench/internal/measure"
	"github.com/pullonce/pullonce/internal/cachetest"
)

// archive is the path that people cache, relative to the workspace.
const archive = "images.tar"

func theirLanes() []Contender {
	return []Contender{
		{Name: HandWritten, Prepare: saveByHand, Commands: restoreAndLoad, Verify: verifyTarget},
		{Name: DockerPull, Commands: pull, Verify: verifyTarget, targets: engines()},
		{Name: Crane, Commands: craneAndLoad, Verify: verifyTarget},
		{Name: SkopeoFile, Commands: skopeoAndLoad, Verify: verifyTarget},
		{Name: SkopeoInto, Commands: skopeoInto, Verify: verifyTarget, targets: engines()},
	}
}

func theirPrimes() []Contender {
	return []Contender{
		{Name: HandWritten, Commands: pullAndSave, Verify: verifySaved(HandWritten)},
		{Name: Crane, Commands: craneAndSave, Verify: verifySaved(Crane)},
	}
}

func theirWarmPrimes() []Contender {
	return []Contender{
		{Name: HandWritten, Prepare: saveByHand, Commands: restoreAlone, Verify: verifyRestored},
		{Name: LookupOnly, Prepare: saveByHand, Commands: lookUp, Verify: verifyFound},
	}
}

// engines are the targets that are Docker engines.
func engines() []string { return []string{Docker, DockerContainerd, Docker20} }

// cacheClient runs the real @actions/cache, as its steps do.
func (s *Scene) cacheClient(script, mode, key string) measure.Command {
	return measure.Command{
		Argv: []string{"node", "--import", filepath.Join(s.Programs.Modules, "loopback.mjs"), filepath.Join(s.Programs.Modules, script), mode, key, archive},
		Dir:  s.workspace(),
		Env: []string{
			"PATH=" + s.Engine.Path, "HOME=" + s.Dir, "GITHUB_WORKSPACE=" + s.workspace(), "RUNNER_TEMP=" + filepath.Join(s.Dir, "_temp"),
			"ACTIONS_CACHE_SERVICE_V2=true", "ACTIONS_RESULTS_URL=" + s.Store.URL(true), "ACTIONS_RUNTIME_TOKEN=" + cachetest.Token,
		},
	}
}

func (s *Scene) restore(key string) measure.Command {
	return s.cacheClient("client.mjs", "restore", key)
}

func (s *Scene) save(key string) measure.Command { return s.cacheClient("client.mjs", "save", key) }

// docker is a docker command in the workspace.
func (s *Scene) docker(args ...string) measure.Command {
	return measure.Command{Argv: append([]string{"docker"}, args...), Env: s.Engine.Client(), Dir: s.workspace()}
}

// file is the archive in the workspace.
func (s *Scene) file() string { return filepath.Join(s.workspace(), archive) }

func pull(s *Scene, _ int) []measure.Command {
	var commands []measure.Command
	for _, ref := range s.refs() {
		commands = append(commands, s.docker("pull", "--quiet", ref))
	}
	return commands
}

func pullAndSave(s *Scene, round int) []measure.Command {
	return append(pull(s, round),
		s.docker(append([]string{"save", "--output", archive}, s.refs()...)...),
		s.save(s.key(HandWritten, fmt.Sprint(round))))
}

func restoreAndLoad(s *Scene, _ int) []measure.Command {
	return []measure.Command{s.restore(s.key()), s.Target.Load(s.file())}
}

func restoreAlone(s *Scene, _ int) []measure.Command {
	return []measure.Command{s.restore(s.key())}
}

func lookUp(s *Scene, _ int) []measure.Command {
	return []measure.Command{s.cacheClient(lookupScript, "lookup", s.key())}
}

// saveByHand is the prime job of the hand-written way.
func saveByHand(ctx context.Context, s *Scene) error {
	if s.saved(s.key()) {
		return nil
	}
	commands := append(pull(s, 0), s.docker(append([]string{"save", "--output", archive}, s.refs()...)...), s.save(s.key()))
	if _, err := s.run(ctx, commands...); err != nil {
		return err
	}
	if !s.saved(s.key()) {
		return fmt.Errorf("saving by hand: the cache has no entry %s", s.key())
	}
	return nil
}

// crane pulls into an archive.
func (s *Scene) crane() measure.Command {
	return measure.Command{
		Argv: append(append([]string{s.Programs.Crane, "pull"}, s.refs()...), archive), Dir: s.workspace(),
		Env: []string{"PATH=" + s.Engine.Path, "HOME=" + s.Dir},
	}
}

func craneAndLoad(s *Scene, _ int) []measure.Command {
	return []measure.Command{s.crane(), s.Target.Load(s.file())}
}

func craneAndSave(s *Scene, round int) []measure.Command {
	return []measure.Command{s.crane(), s.save(s.key(Crane, fmt.Sprint(round)))}
}

// skopeo copies an image.
func (s *Scene) skopeo(ref, to string, flags ...string) measure.Command {
	argv := append([]string{"skopeo", "copy", "--quiet", "--src-tls-verify=false"}, flags...)
	return measure.Command{
		Argv: append(argv, "docker://"+ref, to), Dir: s.workspace(),
		Env: []string{"PATH=" + s.Engine.Path, "HOME=" + s.Dir},
	}
}

func skopeoAndLoad(s *Scene, _ int) []measure.Command {
	var commands []measure.Command
	for i, ref := range s.refs() {
		name := fmt.Sprintf("%d.tar", i)
		commands = append(commands, s.skopeo(ref, "docker-archive:"+name+":"+ref), s.Target.Load(filepath.Join(s.workspace(), name)))
	}
	return commands
}

func skopeoInto(s *Scene, _ int) []measure.Command {
	var commands []measure.Command
	for _, ref := range s.refs() {
		commands = append(commands, s.skopeo(ref, "docker-daemon:"+ref, "--dest-daemon-host", s.Engine.Host()))
	}
	return commands
}

// verifyTarget proves that the target has the images.
func verifyTarget(ctx context.Context, s *Scene, _ Outcome) error {
	for _, img := range s.Images {
		if err := s.Target.Verify(ctx, img.Ref(s.Registry.Addr), img); err != nil {
			return err
		}
	}
	return nil
}

// verifySaved proves that the cache has what a prime of this round saved.
func verifySaved(name string) func(context.Context, *Scene, Outcome) error {
	return func(_ context.Context, s *Scene, o Outcome) error {
		if key := s.key(name, fmt.Sprint(o.Round)); !s.saved(key) {
			return fmt.Errorf("the cache has no entry %s", key)
		}
		return nil
	}
}

// verifyRestored proves that the archive is there.
func verifyRestored(ctx context.Context, s *Scene, o Outcome) error {
	if err := verifyFound(ctx, s, o); err != nil {
		return err
	}
	_, err := os.Stat(s.file())
	return err
}

// verifyFound proves that the client found the entry: it says its key.
func verifyFound(_ context.Context, s *Scene, o Outcome) error {
	lines := strings.Split(strings.TrimSpace(o.Stdout), "\n")
	if found := lines[len(lines)-1]; found != strconv.Quote(s.key()) {
		return fmt.Errorf("the client found %s, not %s", found, s.key())
	}
	return nil
}

// saved says whether the cache has an entry.
func (s *Scene) saved(key string) bool {
	for _, e := range s.Store.Entries() {
		if e.Key == key && e.Size > 0 {
			return true
		}
	}
	return false
}
