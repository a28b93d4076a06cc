//go:build linux

package e2e

import (
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/report"
)

// nobody is a user that may read what is open to all, and nothing else.
const nobody = 65534

// primed is a store that holds some images of a registry, and the arguments of a lane that must not fail.
func primed(t *testing.T, p program, r *registry, images ...fixture) []string {
	t.Helper()
	store := newStore(t)
	var refs []string
	for _, image := range images {
		refs = append(refs, r.addr+"/"+image.repoTag)
	}
	list := pins(t, store, refs...)
	require.Equal(t, 0, p.run(t, with([]string{"prime"}, list...)...).code)
	return with([]string{"load", "--on-miss", "warn"}, list...)
}

// Nothing to load into is one warning, whatever it looks like.
func TestLoadWithoutDaemon(t *testing.T) {
	gate(t)
	f := needImages(t)
	r := startRegistry(t, f.storage)
	args := primed(t, pullonce(t, nil), r, f.small)
	for name, test := range map[string]struct {
		endpoint func(t *testing.T) string
		user     uint32
		cause    string
	}{
		"no socket":           {noSocket, 0, "docker.sock does not exist"},
		"nobody listens":      {abandonedSocket, 0, "nobody listens at"},
		"socket is a folder":  {folderSocket, 0, "docker.sock is a folder"},
		"socket is forbidden": {forbiddenSocket, nobody, "uid 65534 may not use"},
	} {
		t.Run(name, func(t *testing.T) {
			p := pullonce(t, nil)
			p.docker, p.user = "unix://"+test.endpoint(t), test.user
			loaded := p.run(t, args...)
			require.Equal(t, 0, loaded.code)
			require.Equal(t, report.Degraded, loaded.report.Result)
			loaded.requireOne(t, report.Warning, "e2e/small:1", test.cause)
		})
	}
}

func noSocket(t *testing.T) string { return filepath.Join(tempDir(t), "docker.sock") }

func folderSocket(t *testing.T) string {
	path := noSocket(t)
	require.NoError(t, os.Mkdir(path, 0o755))
	return path
}

// abandonedSocket is what a daemon that was killed leaves behind.
func abandonedSocket(t *testing.T) string {
	path := noSocket(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	return path
}

// forbiddenSocket is a daemon's that only root may talk to.
func forbiddenSocket(t *testing.T) string {
	path := noSocket(t)
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	require.NoError(t, os.Chmod(path, 0o600))
	return path
}

// The daemon says that it has loaded the image, and has not.
func TestLoadIntoLiar(t *testing.T) {
	gate(t)
	f := needImages(t)
	r := startRegistry(t, f.storage)
	p := pullonce(t, nil)
	args := primed(t, p, r, f.small)
	p.docker = "unix://" + liar(t)

	loaded := p.run(t, args...)
	require.Equal(t, 0, loaded.code)
	require.Equal(t, []report.Source{report.Nowhere}, loaded.sources())
	loaded.requireOne(t, report.Warning, "e2e/small:1", "the daemon reported success, but")
}

// liar answers as a Docker daemon that swallows what it is given.
func liar(t *testing.T) string {
	t.Helper()
	path := noSocket(t)
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	reply := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Api-Version", "1.41")
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/_ping", reply("OK"))
	mux.HandleFunc("/{api}/version", reply(fmt.Sprintf(`{"Version":"20.10.24","ApiVersion":"1.41","Os":"linux","Arch":%q}`, host.Architecture)))
	mux.HandleFunc("/{api}/info", reply(fmt.Sprintf(`{"OSType":"linux","Architecture":%q,"Driver":"overlay2"}`, host.Architecture)))
	mux.HandleFunc("POST /{api}/images/load", reply(`{"stream":"Loaded image: e2e/small:1\n"}`+"\n"))
	mux.HandleFunc("GET /{api}/images/json", reply("[]"))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"message":"No such image"}`)
	})
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: mux, ReadHeaderTimeout: patience}}
	server.Start()
	t.Cleanup(server.Close)
	return path
}

// The daemon's disk has room for the small image and not for the large one: the one is there, the other is warned of
// and leaves no name behind.
func TestLoadFillsDisk(t *testing.T) {
	gate(t)
	f := needImages(t)
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			d := e.startOn(t, 200<<20)
			r := startRegistry(t, f.storage)
			p := pullonce(t, d)

			loaded := p.run(t, with(primed(t, p, r, f.small, f.large), "--concurrency", "1")...)
			require.Equal(t, 0, loaded.code)
			require.Equal(t, []report.Source{report.Cache, report.Nowhere}, loaded.sources())
			loaded.requireOne(t, report.Warning, "e2e/large:3", "no space left on device")
			require.Equal(t, []string{r.addr + "/" + f.small.repoTag}, d.names(t))
		})
	}
}

// The daemon is killed while it takes the image in.
func TestLoadDaemonKilled(t *testing.T) {
	forEachEngine(t, func(t *testing.T, d *daemon) {
		f := needImages(t)
		r := startRegistry(t, f.storage)
		p := pullonce(t, d)
		args := primed(t, p, r, f.large)
		before := treeSize(t, d.roots)

		loaded := finish(t, p.command(t, with(args, "--json")...), func() {
			d.dockerd.eventually(t, "the daemon takes the image in", func() bool { return treeSize(t, d.roots) > before+32<<20 })
			d.dockerd.kill()
		})
		require.Equal(t, 0, loaded.code)
		require.Equal(t, []report.Source{report.Nowhere}, loaded.sources())
		loaded.requireOne(t, report.Warning, "e2e/large:3", "the connection to the daemon broke")
	})
}

// treeSize is the size of all files below dir. Files that go while it is counted are not.
func treeSize(t *testing.T, dir string) int64 {
	t.Helper()
	var size int64
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}

// With on-miss: fail the same faults end a lane with exit code 1.
func TestLoadFailsWhereAsked(t *testing.T) {
	gate(t)
	f := needImages(t)
	r := startRegistry(t, f.storage)
	p := pullonce(t, nil)
	args := with(primed(t, p, r, f.small), "--on-miss", "fail")
	p.docker = "unix://" + noSocket(t)

	loaded := p.run(t, args...)
	require.Equal(t, 1, loaded.code)
	loaded.requireOne(t, report.Error, "e2e/small:1", "docker.sock does not exist")
}

// Prime is a gate: every fault is an error that names image and cause, and exit code 1.
func TestPrimeFaults(t *testing.T) {
	gate(t)
	f := needImages(t)
	for name, test := range map[string]struct {
		// arrange gives the address of a registry, the path of a store, and the user.
		arrange func(t *testing.T) (addr, store string, user uint32)
		image   fixture
		cause   string
	}{
		"no registry":        {noRegistry, f.small, "connection refused"},
		"store is forbidden": {forbiddenStore, f.small, "permission denied"},
		"store is a file":    {fileStore, f.small, "not a directory"},
		"full disk":          {fullStore, f.large, "no space left on device"},
		"registry that lies": {lyingRegistry, f.small, "a web page came where a manifest belongs"},
		"image is not there": {emptyRegistry, f.small, "manifest unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			addr, store, user := test.arrange(t)
			p := pullonce(t, nil)
			p.user = user
			args := pins(t, store, addr+"/"+test.image.repoTag)
			primed := p.run(t, with([]string{"prime", "--timeout", "5s"}, args...)...)
			require.Equal(t, 1, primed.code)
			require.Equal(t, report.Failure, primed.report.Result)
			primed.requireOne(t, report.Error, test.image.repoTag, test.cause)
			if user == 0 && name != "store is a file" {
				requireStoreVerifies(t, store, 0)
			}
		})
	}
}

func noRegistry(t *testing.T) (addr, store string, user uint32) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String(), newStore(t), 0
}

func forbiddenStore(t *testing.T) (addr, store string, user uint32) {
	return startRegistry(t, needImages(t).storage).addr, newStore(t), nobody
}

func fileStore(t *testing.T) (addr, store string, user uint32) {
	return startRegistry(t, needImages(t).storage).addr, writeFile(t, tempDir(t), "store", ""), 0
}

func fullStore(t *testing.T) (addr, store string, user uint32) {
	dir := tempDir(t)
	mountTmpfs(t, dir, 64<<20)
	return startRegistry(t, needImages(t).storage).addr, filepath.Join(dir, "store"), 0
}

// lyingRegistry answers every request with success and a page.
func lyingRegistry(t *testing.T) (addr, store string, user uint32) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html><body>Sign in to the network</body></html>")
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), newStore(t), 0
}

func emptyRegistry(t *testing.T) (addr, store string, user uint32) {
	return startRegistry(t, filepath.Join(tempDir(t), "storage")).addr, newStore(t), 0
}

// The registry is killed while prime pulls from it.
func TestPrimeRegistryKilled(t *testing.T) {
	gate(t)
	f := needImages(t)
	r := startRegistry(t, f.storage)
	p, store := pullonce(t, nil), newStore(t)
	args := with([]string{"prime", "--timeout", "5s", "--json"}, pins(t, store, r.addr+"/"+f.large.repoTag)...)
	primed := finish(t, p.command(t, args...), func() {
		r.eventually(t, "prime writes", func() bool { return treeSize(t, store) > 16<<20 })
		r.kill()
	})
	require.Equal(t, 1, primed.code)
	primed.requireOne(t, report.Error, f.large.repoTag, "connection refused")
	requireStoreVerifies(t, store, 0)
	require.Less(t, primed.elapsed, time.Minute)
}
