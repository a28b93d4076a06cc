//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/report"
	"github.com/pullonce/pullonce/internal/store"
)

// entryRow is a row of inspect or prune.
type entryRow struct{ Key, Reference, Digest, Problem, Reason string }

// rows runs inspect or prune and reads its JSON.
func rows(t *testing.T, p program, code int, args ...string) []entryRow {
	t.Helper()
	cmd := p.command(t, append(args, "--json")...)
	out, _ := cmd.Output()
	require.Equal(t, code, cmd.ProcessState.ExitCode(), "%s", out)
	var read []entryRow
	require.NoError(t, json.Unmarshal(out, &read), "%s", out)
	return read
}

// Prime puts images into a registry, lanes load them from there into Docker, and prune takes them out.
func TestRegistryIsTheStore(t *testing.T) {
	forEachBrand(t, func(t *testing.T, b brand) {
		f := needImages(t)
		source, d := startRegistry(t, f.storage), b.start(t)
		p := pullonce(t, engines()[0].start(t))
		list := flags(t, d.addr, source.addr+"/"+f.small.repoTag, source.addr+"/"+f.medium.repoTag)

		primed := p.run(t, with([]string{"prime"}, list...)...)
		require.Equal(t, 0, primed.code)
		require.Equal(t, []report.Source{report.Registry, report.Registry}, primed.sources())
		before := len(d.requests(t))
		again := p.run(t, with([]string{"prime"}, list...)...)
		require.Equal(t, []report.Source{report.Cache, report.Cache}, again.sources())
		require.Equal(t, 2, len(d.requests(t))-before, "a look-up an image, and nothing is moved")

		require.NoError(t, source.stop()) // lanes have no need of it
		before = len(d.requests(t))
		loaded := p.run(t, with([]string{"load", "--concurrency", "1"}, list...)...)
		require.Equal(t, 0, loaded.code)
		require.Equal(t, []report.Source{report.Cache, report.Cache}, loaded.sources())
		require.Equal(t, 2+f.small.layers+f.medium.layers-2, len(d.requests(t))-before,
			"a look-up an image, and each layer once: the images share two")
		before = len(d.requests(t))
		present := p.run(t, with([]string{"load"}, list...)...)
		require.Equal(t, []report.Source{report.Present, report.Present}, present.sources())
		require.Equal(t, 2, len(d.requests(t))-before, "no layer of what Docker holds is fetched")

		inspected := rows(t, p, 0, with([]string{"inspect"}, list[2:]...)...)
		require.Len(t, inspected, 2)
		for i, want := range []fixture{f.medium, f.small} {
			require.Equal(t, want.root.String(), inspected[i].Digest)
			require.True(t, strings.HasSuffix(inspected[i].Reference, want.repoTag))
			requirePullable(t, d, inspected[i].Key, want)
		}

		one := with([]string{"prune", "--pins", writeFile(t, tempDir(t), "one.txt", source.addr+"/"+f.small.repoTag)}, list[2:]...)
		require.Len(t, rows(t, p, 0, one...), 1)
		require.Len(t, rows(t, p, 0, with([]string{"inspect"}, list[2:]...)...), 2, "a dry run deletes nothing")
		pruned := rows(t, p, 0, with(one, "--delete")...)
		require.Equal(t, "not kept", pruned[0].Reason)
		require.Equal(t, inspected[0].Key, pruned[0].Key)
		left := rows(t, p, 0, with([]string{"inspect"}, list[2:]...)...)
		require.Equal(t, inspected[1:], left, "what is kept is whole")
	})
}

// A registry that collects its garbage, untagged manifests and all, frees what prune deleted and what generations left,
// and no part of an entry.
func TestRegistryCollectsGarbage(t *testing.T) {
	forEachBrand(t, func(t *testing.T, b brand) {
		images, keys := relatives(t, 4, 1, 1<<20)
		d := b.start(t)
		s := openDepot(t, d.addr)
		for i, img := range images[:3] {
			require.NoError(t, s.Save(t.Context(), keys[i], img))
		}
		require.NoError(t, s.Save(t.Context(), keys[0]+".1", images[3]))
		pruned, err := s.Prune(t.Context(), store.PruneOptions{Keep: func(key string) bool { return key != keys[1] }})
		require.NoError(t, err)
		require.Len(t, pruned, 1)
		require.NoError(t, d.stop())
		before := treeSize(t, d.storage)
		out, err := exec.Command(b.program, "garbage-collect", "--delete-untagged", filepath.Join(filepath.Dir(d.base), "registry.yml")).CombinedOutput()
		require.NoError(t, err, "%s", out)
		freed := before - treeSize(t, d.storage)
		t.Logf("freed %d of %d bytes", freed, before)
		require.Greater(t, freed, int64(2<<20), "a layer of the pruned entry and one of the first generation")

		d = b.serve(t, d.storage)
		s = openDepot(t, d.addr)
		for i, key := range []string{keys[0], keys[2]} {
			inspected, err := s.Inspect(t.Context(), key)
			require.NoError(t, err)
			require.NoError(t, inspected.Problem)
			require.Equal(t, []image.Image{images[3], images[2]}[i].Root(), inspected.Image.Root())
		}
	})
}

// requirePullable holds an entry to be the image to whoever pulls it by tag, and the image's own manifest to be there.
func requirePullable(t *testing.T, d depot, key string, want fixture) {
	t.Helper()
	repository, err := name.NewRepository(d.addr + "/pullonce/cache")
	require.NoError(t, err)
	img, err := remote.Image(repository.Tag(key))
	require.NoError(t, err)
	config, err := img.ConfigName()
	require.NoError(t, err)
	require.Equal(t, want.config, config)
	layers, err := img.Layers()
	require.NoError(t, err)
	require.Len(t, layers, want.layers)
	_, err = remote.Head(repository.Digest(want.manifest.String()))
	require.NoError(t, err)
}

// Several primes at once save the same images: all are content, and what is there is whole.
func TestRegistryConcurrentPrimes(t *testing.T) {
	forEachBrand(t, func(t *testing.T, b brand) {
		f := needImages(t)
		source, d := startRegistry(t, f.storage), b.start(t)
		p := pullonce(t, nil)
		list := flags(t, d.addr, source.addr+"/"+f.small.repoTag, source.addr+"/"+f.medium.repoTag)
		var group errgroup.Group
		for range 8 {
			group.Go(func() error {
				out, err := p.command(t, with([]string{"prime"}, list...)...).CombinedOutput()
				if err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
				return nil
			})
		}
		require.NoError(t, group.Wait())
		require.Len(t, rows(t, p, 0, with([]string{"inspect"}, list[2:]...)...), 2)
	})
}

// Layers that the registry has in another repository are mounted from there.
func TestRegistryMounts(t *testing.T) {
	forEachBrand(t, func(t *testing.T, b brand) {
		f := needImages(t)
		storage := tempDir(t)
		require.NoError(t, os.CopyFS(storage, os.DirFS(f.storage)))
		d := b.serve(t, storage)
		p := pullonce(t, nil)
		list := flags(t, d.addr, d.addr+"/"+f.medium.repoTag)
		require.Equal(t, 0, p.run(t, with([]string{"prime"}, list...)...).code)
		uploads := 0
		for _, line := range d.requests(t) {
			if strings.Contains(line, "PATCH ") {
				uploads++
			}
		}
		require.Zero(t, uploads)
		require.Len(t, rows(t, p, 0, with([]string{"inspect"}, list[2:]...)...), 1)
	})
}

// credentials writes what `docker login` would.
func (p program) login(t *testing.T, addr, user, password string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(p.home+"/.docker", 0o755))
	config, err := json.Marshal(map[string]any{"auths": map[string]any{addr: map[string]string{"username": user, "password": password}}})
	require.NoError(t, err)
	writeFile(t, p.home+"/.docker", "config.json", string(config))
}

// rightPassword is the bcrypt hash of "right".
const rightPassword = "$2a$04$k2L/Vd8mIDba/pIGu7ETVOYPBGyBozG1tlcZ/Mt0NixRro8dhT6xi"

// A registry that asks for a password gets the one that is stored; a wrong one, or none, is one error that says so.
func TestRegistryCredentials(t *testing.T) {
	forEachBrand(t, func(t *testing.T, b brand) {
		f := needImages(t)
		source := startRegistry(t, f.storage)
		users := writeFile(t, tempDir(t), "users", "me:"+rightPassword+"\n")
		d := b.start(t, "auth: {htpasswd: {realm: here, path: "+users+"}}\n")
		list := flags(t, d.addr, source.addr+"/"+f.small.repoTag)
		for password, cause := range map[string]string{"": "asks for user and password, and none are stored", "wrong": "401 Unauthorized"} {
			p := pullonce(t, nil)
			if password != "" {
				p.login(t, d.addr, "me", password)
			}
			t.Run("prime with "+strconv.Quote(password), func(t *testing.T) {
				t.Parallel()
				primed := p.run(t, with([]string{"prime", "--timeout", "30s"}, list...)...)
				require.Equal(t, 1, primed.code)
				primed.requireOne(t, report.Error, f.small.repoTag, cause)
				require.NotContains(t, primed.stdout+primed.stderr, "wrong")
			})
			t.Run("load with "+strconv.Quote(password), func(t *testing.T) {
				t.Parallel()
				loaded := p.run(t, with([]string{"load", "--into", "none", "--timeout", "30s"}, list...)...)
				require.Equal(t, 0, loaded.code)
				loaded.requireOne(t, report.Warning, f.small.repoTag, cause)
			})
		}
		p := pullonce(t, nil) // the others run once this is done, and find nothing that they may see
		p.login(t, d.addr, "me", "right")
		require.Equal(t, 0, p.run(t, with([]string{"prime"}, list...)...).code)
		loaded := p.run(t, with([]string{"load", "--into", "none"}, list...)...)
		require.Equal(t, []report.Source{report.Cache}, loaded.sources())
	})
}

// A registry that can be read and not written: lanes load, a prime says that it is read-only, and passes where it may.
func TestRegistryReadOnly(t *testing.T) {
	forEachBrand(t, func(t *testing.T, b brand) {
		f := needImages(t)
		source, p := startRegistry(t, f.storage), pullonce(t, nil)
		small, medium := source.addr+"/"+f.small.repoTag, source.addr+"/"+f.medium.repoTag
		writable := b.start(t)
		require.Equal(t, 0, p.run(t, with([]string{"prime"}, flags(t, writable.addr, small)...)...).code)
		require.NoError(t, writable.stop())

		frozen := b.serve(t, writable.storage, "  maintenance: {readonly: {enabled: true}}\n")
		denying := startFront(t, b.serve(t, writable.storage))
		denying.set(refuseWith(http.StatusForbidden, "denied"))
		for addr, cause := range map[string]string{frozen.addr: "405 Method Not Allowed", denying.addr: "403 Forbidden: denied"} {
			t.Run("prime fails of "+cause[:3], func(t *testing.T) {
				t.Parallel()
				primed := p.run(t, with([]string{"prime", "--timeout", "30s"}, flags(t, addr, small, medium)...)...)
				require.Equal(t, 1, primed.code)
				require.Equal(t, []report.Source{report.Cache, report.Nowhere}, primed.sources())
				primed.requireOne(t, report.Error, f.medium.repoTag, "read-only")
				primed.requireOne(t, report.Error, f.medium.repoTag, cause)
			})
			t.Run("prime warns of "+cause[:3], func(t *testing.T) {
				t.Parallel()
				primed := p.run(t, with([]string{"prime", "--timeout", "30s", "--on-read-only", "warn"}, flags(t, addr, small, medium)...)...)
				require.Equal(t, 0, primed.code)
				primed.requireOne(t, report.Warning, f.medium.repoTag, "read-only")
			})
			loaded := p.run(t, with([]string{"load", "--into", "none"}, flags(t, addr, small)...)...)
			require.Equal(t, []report.Source{report.Cache}, loaded.sources())
		}
	})
}

// A registry that takes no more says so in one line, at once, and nothing half-saved can be seen.
func TestRegistryQuota(t *testing.T) {
	forEachBrand(t, func(t *testing.T, b brand) {
		f := needImages(t)
		source, d, p := startRegistry(t, f.storage), b.start(t), pullonce(t, nil)
		full := startFront(t, d)
		list := flags(t, full.addr, source.addr+"/"+f.medium.repoTag)
		for status, cause := range map[int]string{
			http.StatusRequestEntityTooLarge: "the registry, or a proxy before it, takes no blob of this size: sending sha256:",
			http.StatusInsufficientStorage:   "the registry has no room left: sending sha256:",
		} {
			full.set(func(w http.ResponseWriter, r *http.Request) bool {
				return r.ContentLength > 1<<20 && refuseWith(status, "")(w, r)
			})
			primed := p.run(t, with([]string{"prime"}, list...)...)
			require.Equal(t, 1, primed.code)
			primed.requireOne(t, report.Error, f.medium.repoTag, cause)
			_, err := openDepot(t, full.addr).List(t.Context())
			require.ErrorIs(t, err, store.ErrNoPlace, "nothing was saved yet")
		}
		full.set(nil)
		require.Equal(t, 0, p.run(t, with([]string{"prime"}, list...)...).code)
		require.Len(t, rows(t, p, 0, with([]string{"inspect"}, list[2:]...)...), 1)
	})
}
