package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/target"
)

// dockerConfig is a config folder with a context of each kind.
func dockerConfig(t *testing.T, current string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "config.json"), `{"auths":{},"currentContext":"`+current+`"}`)
	for name, endpoint := range map[string]string{
		"desktop": `{"Host":"unix:///home/me/desktop.sock"}`,
		"remote":  `{"Host":"tcp://build:2376","SkipTLSVerify":true}`,
		"far":     `{"Host":"ssh://me@far"}`,
	} {
		write(t, contextFile(dir, "meta", name, "meta.json"), `{"Name":"`+name+`","Endpoints":{"docker":`+endpoint+`}}`)
	}
	write(t, contextFile(dir, "tls", "remote", "docker/cert.pem"), "")
	write(t, contextFile(dir, "tls", "remote", "docker/key.pem"), "")
	return dir
}

func contextFile(dir, kind, name, file string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(dir, "contexts", kind, hex.EncodeToString(sum[:]), file)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestResolve(t *testing.T) {
	t.Parallel()
	dir := dockerConfig(t, "desktop")
	tests := map[string]struct {
		options Options
		env     map[string]string
		want    endpoint
	}{
		"nothing said": {want: endpoint{scheme: "unix", address: usualSocket}},
		"said outright": {
			options: Options{Host: "unix:///run/x.sock", Context: "remote", ConfigDir: dir}, env: map[string]string{"DOCKER_HOST": "tcp://no:1"},
			want: endpoint{scheme: "unix", address: "/run/x.sock"},
		},
		"DOCKER_HOST before contexts": {
			env:  map[string]string{"DOCKER_HOST": "tcp://dind:2375", "DOCKER_CONTEXT": "remote", "DOCKER_CONFIG": dir},
			want: endpoint{scheme: "tcp", address: "dind:2375", source: "DOCKER_HOST"},
		},
		"DOCKER_HOST with certificates": {
			env: map[string]string{"DOCKER_HOST": "tcp://dind:2376", "DOCKER_CERT_PATH": "/certs", "DOCKER_TLS_VERIFY": "1"},
			want: endpoint{scheme: "tcp", address: "dind:2376", source: "DOCKER_HOST", tls: &tlsFiles{
				ca: "/certs/ca.pem", cert: "/certs/cert.pem", key: "/certs/key.pem",
			}},
		},
		"certificates beside the config": {
			env: map[string]string{"DOCKER_HOST": "tcp://dind:2376", "HOME": "/home/me", "DOCKER_TLS_VERIFY": "1"},
			want: endpoint{scheme: "tcp", address: "dind:2376", source: "DOCKER_HOST", tls: &tlsFiles{
				ca: "/home/me/.docker/ca.pem", cert: "/home/me/.docker/cert.pem", key: "/home/me/.docker/key.pem",
			}},
		},
		"certificates are not for sockets": {
			env:  map[string]string{"DOCKER_HOST": "unix:///run/x.sock", "DOCKER_CERT_PATH": "/certs"},
			want: endpoint{scheme: "unix", address: "/run/x.sock", source: "DOCKER_HOST"},
		},
		"the current context": {
			env:  map[string]string{"DOCKER_CONFIG": dir},
			want: endpoint{scheme: "unix", address: "/home/me/desktop.sock", source: `docker context "desktop"`},
		},
		"DOCKER_CONTEXT before the current one": {
			env: map[string]string{"DOCKER_CONFIG": dir, "DOCKER_CONTEXT": "remote"},
			want: endpoint{scheme: "tcp", address: "build:2376", source: `docker context "remote"`, tls: &tlsFiles{
				cert: contextFile(dir, "tls", "remote", "docker/cert.pem"), key: contextFile(dir, "tls", "remote", "docker/key.pem"), insecure: true,
			}},
		},
		"the default context": {
			options: Options{Context: "default", ConfigDir: dir},
			want:    endpoint{scheme: "unix", address: usualSocket},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.options.Getenv = func(key string) string { return test.env[key] }
			got, err := resolve(test.options)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	dir, broken := dockerConfig(t, "gone"), t.TempDir()
	write(t, filepath.Join(broken, "config.json"), "{")
	tests := map[string]struct {
		options Options
		want    string
	}{
		"no scheme":       {Options{Host: "/var/run/docker.sock"}, `"/var/run/docker.sock" is no address of a Docker daemon: write unix:///path or tcp://host:port`},
		"no address":      {Options{Host: "unix://"}, `"unix://" is no address of a Docker daemon: write unix:///path or tcp://host:port`},
		"a user":          {Options{Host: "tcp://me:secret@host:1"}, "the address of the Docker daemon has a user in it: write tcp://host:port"},
		"ssh":             {Options{Context: "far", ConfigDir: dir}, `Docker behind ssh (docker context "far") is not supported: forward its socket, as in ssh -L, and set DOCKER_HOST to that`},
		"current context": {Options{ConfigDir: dir}, `there is no docker context "gone" in ` + dir + ": see docker context ls"},
		"broken config":   {Options{ConfigDir: broken}, "reading Docker's config: " + broken + "/config.json: unexpected end of JSON input"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(test.options)
			require.ErrorIs(t, err, target.ErrUnavailable)
			require.EqualError(t, err, "target unavailable: "+test.want)
		})
	}
}

func TestRootlessSocketWhereThereIsNoOther(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "pullonce")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	listener, err := net.Listen("unix", filepath.Join(dir, "docker.sock"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	getenv := func(key string) string { return map[string]string{"XDG_RUNTIME_DIR": dir}[key] }

	rootless := endpoint{scheme: "unix", address: filepath.Join(dir, "docker.sock"), source: "rootless"}
	require.Equal(t, rootless, usual(filepath.Join(dir, "none"), getenv))
	require.Equal(t, endpoint{scheme: "unix", address: rootless.address}, usual(rootless.address, getenv))
	require.Equal(t, endpoint{scheme: "unix", address: "/none"}, usual("/none", func(string) string { return "/nowhere" }))
}
