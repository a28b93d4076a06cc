package docker_test

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/target/docker"
)

// engine is a Docker engine as far as loading images needs one: it keeps ids and names, records every call, and fails
// the test on a call that it doesn't know.
type engine struct {
	t          *testing.T
	containerd bool
	apiVersion string
	// load, if set, answers a load in the engine's place and says whether it did.
	load func(w http.ResponseWriter, body io.Reader) bool
	// pull, if set, answers a pull in the engine's place and says whether it did.
	pull func(w http.ResponseWriter, r *http.Request, p puller) bool
	// tag, if set, is told of every tag before it is made, with the engine locked; an error refuses it.
	tag func(id, name string) error
	// forget has the next tag reported as made, and the name lost.
	forget bool
	// hangs, if set, says which calls are never answered.
	hangs func(call string) bool
	// limits and way are those of the target.
	limits    docker.Limits
	way       docker.Way
	readsZstd bool

	mu    sync.Mutex
	calls []string
	// pulledBefore are the digests of layers that were pulled: a classic store knows them again, those of an archive it does not.
	pulledBefore map[string]bool
	labels       []string
	images       map[string]*held
	names        map[string]string
	// aborted counts loads whose body ended in an error.
	aborted int
}

// held is an image that the engine has.
type held struct {
	manifest            string
	diffIDs             []digest.Digest
	available, unpacked bool
}

func newEngine(t *testing.T, containerd bool) *engine {
	e := &engine{t: t, containerd: containerd, apiVersion: "1.41", images: map[string]*held{}, names: map[string]string{}, pulledBefore: map[string]bool{}}
	if containerd {
		e.apiVersion = "1.52"
	}
	return e
}

// target serves the engine on a socket and gives the target that talks to it.
func (e *engine) target() *docker.Docker {
	socket := socketPath(e.t)
	listener, err := net.Listen("unix", socket)
	require.NoError(e.t, err)
	server := httptest.NewUnstartedServer(e.handler())
	require.NoError(e.t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	d, err := docker.New(docker.Options{Host: "unix://" + socket, Limits: e.limits, Way: e.way, ReadsZstd: e.readsZstd})
	require.NoError(e.t, err)
	e.t.Cleanup(func() {
		require.NoError(e.t, d.Close())
		server.Close()
	})
	return d
}

// socketPath is short: a socket's path has room for 107 bytes.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pullonce")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "docker.sock")
}

// label has img's digests shown as NAME.root, NAME.manifest and NAME.config in the record of calls.
func (e *engine) label(name string, img image.Image) {
	e.labels = append(e.labels, img.Root().Digest.String(), name+".root", img.Manifest().Digest.String(), name+".manifest",
		img.Config().Digest.String(), name+".config", img.Carrier().Digest.String(), name+".carrier")
}

// labelled has digests by their labels, and the random name of a pull as PULL.
func (e *engine) labelled(s string) string {
	return temporary.ReplaceAllString(strings.NewReplacer(e.labels...).Replace(s), "PULL")
}

var temporary = regexp.MustCompile(`127\.0\.0\.1:\d+/[a-z2-7]{26}`)

// id is what this engine calls img.
func (e *engine) id(img image.Image) string {
	if e.containerd {
		return img.Root().Digest.String()
	}
	return img.Config().Digest.String()
}

// hold puts a whole img into the engine under names.
func (e *engine) hold(img image.Image, names ...string) *held {
	h := &held{manifest: img.Manifest().Digest.String(), available: true, unpacked: true}
	for _, l := range img.Layers() {
		h.diffIDs = append(h.diffIDs, l.DiffID)
	}
	e.images[e.id(img)] = h
	for _, name := range names {
		e.names[name] = e.id(img)
	}
	return h
}

// takeCalls are the calls since the last time, without those that ask who the engine is.
func (e *engine) takeCalls() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var calls []string
	for _, call := range e.calls {
		if !slices.Contains([]string{"HEAD /_ping", "GET /version", "GET /info"}, call) {
			calls = append(calls, e.labelled(call))
		}
	}
	e.calls = nil
	return calls
}

// named is the id behind a name, labelled; "" where there is none.
func (e *engine) named(name string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.labelled(e.names[name])
}

func (e *engine) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if version, rest, ok := strings.Cut(strings.TrimPrefix(path, "/v"), "/"); ok && version == e.apiVersion {
			path = "/" + rest
		}
		call := r.Method + " " + path
		if strings.HasSuffix(path, "/tag") {
			call += " " + r.FormValue("repo") + ":" + r.FormValue("tag")
		}
		e.mu.Lock()
		e.calls = append(e.calls, call)
		e.mu.Unlock()
		if e.hangs != nil && e.hangs(call) {
			<-r.Context().Done()
			return
		}
		name := strings.TrimPrefix(path, "/images/")
		switch {
		case call == "HEAD /_ping":
			w.Header().Set("Api-Version", e.apiVersion)
		case call == "GET /version":
			reply(w, map[string]string{"Version": "99.1", "Os": "linux", "Arch": "amd64"})
		case call == "GET /info":
			e.info(w)
		case call == "GET /images/json":
			e.list(w)
		case call == "POST /images/load":
			e.serveLoad(w, r)
		case call == "POST /images/create":
			e.servePull(w, r)
		case r.Method == http.MethodGet && strings.HasSuffix(name, "/json"):
			e.inspect(w, strings.TrimSuffix(name, "/json"), r.FormValue("manifests") == "1")
		case r.Method == http.MethodPost && strings.HasSuffix(name, "/tag"):
			e.serveTag(w, strings.TrimSuffix(name, "/tag"), r.FormValue("repo")+":"+r.FormValue("tag"))
		case r.Method == http.MethodDelete:
			e.remove(w, name)
		default:
			e.t.Errorf("unexpected call: %s", call)
			refuse(w, http.StatusNotImplemented, "unexpected call")
		}
	})
}

func (e *engine) info(w http.ResponseWriter) {
	driver := [][2]string{{"Backing Filesystem", "extfs"}}
	if e.containerd {
		driver = [][2]string{{"driver-type", "io.containerd.snapshotter.v1"}}
	}
	reply(w, map[string]any{"DriverStatus": driver, "Architecture": "x86_64"})
}

func (e *engine) list(w http.ResponseWriter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := []map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(e.images)) {
		list = append(list, map[string]string{"Id": id})
	}
	reply(w, list)
}

// lookUp finds an image by id, by name, or, in the containerd store, by a digest of a repository that it has a name in.
func (e *engine) lookUp(ref string) (id string, h *held) {
	if id, ok := e.names[ref]; ok {
		return id, e.images[id]
	}
	if h, ok := e.images[ref]; ok {
		return ref, h
	}
	repository, digest, ok := strings.Cut(ref, "@")
	if !ok || !e.containerd {
		return "", nil
	}
	for name, id := range e.names {
		if id == digest && strings.HasPrefix(name, repository) {
			return id, e.images[id]
		}
	}
	return "", nil
}

func (e *engine) inspect(w http.ResponseWriter, ref string, manifests bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id, h := e.lookUp(ref)
	if h == nil {
		refuse(w, http.StatusNotFound, "No such image: "+ref)
		return
	}
	answer := map[string]any{"Id": id, "RootFS": map[string]any{"Type": "layers", "Layers": h.diffIDs}}
	if manifests && e.containerd {
		size := map[string]int{"Unpacked": 0}
		if h.unpacked {
			size["Unpacked"] = 4096
		}
		answer["Manifests"] = []any{
			map[string]any{"ID": "sha256:other", "Kind": "image", "Available": false},
			map[string]any{"ID": h.manifest, "Kind": "image", "Available": h.available, "ImageData": map[string]any{"Size": size}},
		}
	}
	reply(w, answer)
}

func (e *engine) serveTag(w http.ResponseWriter, ref, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id, h := e.lookUp(ref)
	if h == nil {
		refuse(w, http.StatusNotFound, "No such image: "+ref)
		return
	}
	if e.tag != nil {
		if err := e.tag(id, name); err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
	}
	if e.forget {
		delete(e.names, name)
		e.forget = false
	} else {
		e.names[name] = id
	}
	w.WriteHeader(http.StatusCreated)
}

// remove takes a name away, and the image with its last name.
func (e *engine) remove(w http.ResponseWriter, ref string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id, h := e.lookUp(ref)
	if h == nil {
		refuse(w, http.StatusNotFound, "No such image: "+ref)
		return
	}
	delete(e.names, ref)
	for _, other := range e.names {
		if other == id {
			reply(w, []any{})
			return
		}
	}
	delete(e.images, id)
	reply(w, []any{})
}

func (e *engine) serveLoad(w http.ResponseWriter, r *http.Request) {
	if e.load != nil && e.load(w, r.Body) {
		return
	}
	got, err := readArchive(r.Body)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil && !e.has(got.diffIDs[:got.missing]) {
		err = errors.New("layers are missing")
	}
	if err != nil {
		e.aborted++
		reply(w, map[string]any{"errorDetail": map[string]string{"message": err.Error()}})
		return
	}
	id := got.config
	if e.containerd {
		id = got.root
	}
	for _, id := range []string{id, got.carrier} {
		if id == "" || id == got.carrier && !e.containerd {
			continue
		}
		if _, ok := e.images[id]; !ok {
			e.images[id] = &held{}
		}
		h := e.images[id]
		h.available, h.unpacked, h.diffIDs = true, true, got.diffIDs
	}
	if got.name != "" && e.containerd {
		e.names[got.name] = id
	}
	reply(w, map[string]string{"stream": "Loaded image ID: " + id + "\n"})
}

// has says whether an image that e holds begins with these layers.
func (e *engine) has(diffIDs []digest.Digest) bool {
	for _, h := range e.images {
		if h.available && len(h.diffIDs) >= len(diffIDs) && slices.Equal(h.diffIDs[:len(diffIDs)], diffIDs) {
			return true
		}
	}
	return len(diffIDs) == 0
}

// loaded is what an archive says.
type loaded struct {
	root, carrier, config, name string
	diffIDs                     []digest.Digest
	// missing is how many of the first layers are not in it.
	missing int
}

// readArchive reads a load's body to its end, as every engine does before it begins.
func readArchive(body io.Reader) (loaded, error) {
	members, err := readMembers(body)
	if err != nil {
		return loaded{}, err
	}
	var index ocispec.Index
	var list []struct {
		Config           string
		RepoTags, Layers []string
	}
	var config ocispec.Image
	if err := errors.Join(json.Unmarshal(members["index.json"], &index), json.Unmarshal(members["manifest.json"], &list)); err != nil {
		return loaded{}, err
	}
	last := len(index.Manifests) - 1
	if len(list) != 1 || last < 0 || last > 1 || len(list[0].RepoTags) != 0 {
		return loaded{}, fmt.Errorf("one image without a tag was expected: %s", members["manifest.json"])
	}
	if err := json.Unmarshal(members[list[0].Config], &config); err != nil {
		return loaded{}, err
	}
	d := index.Manifests[last]
	got := loaded{
		root: d.Digest.String(), config: "sha256:" + filepath.Base(list[0].Config),
		name: d.Annotations["io.containerd.image.name"], diffIDs: config.RootFS.DiffIDs,
	}
	if last > 0 {
		got.carrier = index.Manifests[0].Digest.String()
	}
	for i, layer := range list[0].Layers {
		if members[layer] == nil {
			got.missing = i + 1
		}
	}
	return got, nil
}

func readMembers(body io.Reader) (map[string][]byte, error) {
	members := map[string][]byte{}
	for tr := tar.NewReader(body); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if members[h.Name], err = io.ReadAll(tr); err != nil {
			return nil, err
		}
	}
	_, err := io.Copy(io.Discard, body)
	return members, err
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": message})
}
