package docker

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pullonce/pullonce/internal/target/socket"
)

// usualSocket is where a daemon with root's rights listens.
const usualSocket = "/var/run/docker.sock"

// endpoint is where a daemon listens and how it is spoken to.
type endpoint struct {
	// scheme is "unix" or "tcp"; address is the socket's path, or host:port with a path at most.
	scheme, address string
	// source says who named the address, for people: "DOCKER_HOST", "docker context \"remote\"", "".
	source string
	// tls is nil for a plain connection.
	tls *tlsFiles
}

// tlsFiles are the certificates of a TLS connection. Names of files that need not be there may be "".
type tlsFiles struct {
	ca, cert, key string
	// insecure leaves the daemon's certificate unverified.
	insecure bool
}

// String is the address as DOCKER_HOST has it.
func (e endpoint) String() string { return e.scheme + "://" + e.address }

// resolve finds the daemon in the order of the docker command: what is said outright, DOCKER_HOST, the docker context
// of DOCKER_CONTEXT or of config.json, the usual socket; and then, where that is not there, the rootless one.
func resolve(opts Options) (endpoint, error) {
	getenv := opts.Getenv
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	dir := configDir(opts.ConfigDir, getenv)
	envHost := getenv("DOCKER_HOST")
	switch {
	case opts.Host != "":
		return fromHost(opts.Host, "", getenv, dir)
	case opts.Context != "":
		return fromContext(opts.Context, getenv, dir)
	case envHost != "":
		return fromHost(envHost, "DOCKER_HOST", getenv, dir)
	}
	name, err := currentContext(getenv, dir)
	if err != nil {
		return endpoint{}, err
	}
	return fromContext(name, getenv, dir)
}

func configDir(dir string, getenv func(string) string) string {
	if dir = cmp.Or(dir, getenv("DOCKER_CONFIG")); dir != "" {
		return dir
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".docker")
	}
	return ""
}

// fromHost takes an address of the form of DOCKER_HOST. TLS is for TCP alone.
func fromHost(host, source string, getenv func(string) string, dir string) (endpoint, error) {
	e, err := parseHost(host, source)
	if err != nil || e.scheme != "tcp" {
		return e, err
	}
	certs, verify := getenv("DOCKER_CERT_PATH"), getenv("DOCKER_TLS_VERIFY") != ""
	if certs == "" && verify {
		certs = dir
	}
	if certs != "" {
		e.tls = &tlsFiles{
			ca:       filepath.Join(certs, "ca.pem"),
			cert:     filepath.Join(certs, "cert.pem"),
			key:      filepath.Join(certs, "key.pem"),
			insecure: !verify,
		}
	}
	return e, nil
}

func parseHost(host, source string) (endpoint, error) {
	scheme, address, ok := strings.Cut(host, "://")
	e := endpoint{scheme: scheme, address: address, source: source}
	by := ""
	if source != "" {
		by = " (" + source + ")"
	}
	switch {
	case scheme == "ssh" && ok:
		return endpoint{}, fmt.Errorf("Docker behind ssh%s is not supported: forward its socket, as in ssh -L, and set DOCKER_HOST to that", by)
	case !ok || address == "" || (scheme != "unix" && scheme != "tcp"):
		return endpoint{}, fmt.Errorf("%q%s is no address of a Docker daemon: write unix:///path or tcp://host:port", host, by)
	case scheme == "tcp" && strings.Contains(address, "@"):
		return endpoint{}, fmt.Errorf("the address of the Docker daemon%s has a user in it: write tcp://host:port", by)
	}
	return e, nil
}

// usual is the system's socket, or the rootless daemon's where only that is there.
func usual(system string, getenv func(string) string) endpoint {
	e := endpoint{scheme: "unix", address: system}
	runtime := getenv("XDG_RUNTIME_DIR")
	if socket.Is(system) || runtime == "" {
		return e
	}
	if rootless := filepath.Join(runtime, "docker.sock"); socket.Is(rootless) {
		return endpoint{scheme: "unix", address: rootless, source: "rootless"}
	}
	return e
}

// defaultContext is the docker context that is no file: the usual socket.
const defaultContext = "default"

// currentContext is the name of the docker context that the environment or config.json selects.
func currentContext(getenv func(string) string, dir string) (string, error) {
	if name := getenv("DOCKER_CONTEXT"); name != "" {
		return name, nil
	}
	if dir == "" {
		return defaultContext, nil
	}
	var config struct {
		CurrentContext string `json:"currentContext"`
	}
	err := readJSON(filepath.Join(dir, "config.json"), &config)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading Docker's config: %w", err)
	}
	return cmp.Or(config.CurrentContext, defaultContext), nil
}

// fromContext reads a docker context: contexts/meta/<sha256 of the name>/meta.json, and its certificates beside it
// (docker/cli, cli/context/store).
func fromContext(name string, getenv func(string) string, dir string) (endpoint, error) {
	if name == defaultContext {
		return usual(usualSocket, getenv), nil
	}
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	err := readJSON(filepath.Join(dir, "contexts", "meta", id, "meta.json"), &meta)
	if errors.Is(err, fs.ErrNotExist) {
		return endpoint{}, fmt.Errorf("there is no docker context %q in %s: see docker context ls", name, dir)
	}
	if err != nil {
		return endpoint{}, fmt.Errorf("reading docker context %q: %w", name, err)
	}
	found := meta.Endpoints["docker"]
	e, err := parseHost(found.Host, fmt.Sprintf("docker context %q", name))
	if err != nil {
		return endpoint{}, err
	}
	e.tls = contextTLS(filepath.Join(dir, "contexts", "tls", id, "docker"), found.SkipTLSVerify)
	if e.scheme != "tcp" {
		e.tls = nil
	}
	return e, nil
}

// contextTLS are the files of a context's TLS folder, each optional; nil where there is nothing at all to set up.
func contextTLS(dir string, insecure bool) *tlsFiles {
	there := func(name string) string {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			return ""
		}
		return path
	}
	files := tlsFiles{ca: there("ca.pem"), cert: there("cert.pem"), key: there("key.pem"), insecure: insecure}
	if files == (tlsFiles{}) {
		return nil
	}
	return &files
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
