package containerd

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestSnapshotterOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ config, want string }{
		"version 3":       {"version = 3\n[plugins]\n  [plugins.'io.containerd.cri.v1.images']\n    snapshotter = 'native'\n", "native"},
		"version 2":       {"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n  snapshotter = \"fuse-overlayfs\"\n", "fuse-overlayfs"},
		"version 1":       {"[plugins.cri.containerd]\nsnapshotter = \"zfs\"\n", "zfs"},
		"a runtime's own": {"version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\nsnapshotter = 'x'\n", ""},
		"not set":         {"version = 2\n", ""},
		"nothing":         {"", ""},
		"no TOML":         {"containerd: command not found [", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, snapshotterOf(test.config))
		})
	}
}

func TestConfigOfK3sAndRKE2(t *testing.T) {
	t.Parallel()
	config := &fstest.MapFile{Data: []byte("version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\nsnapshotter = \"stargz\"\n")}
	for _, distribution := range []string{"k3s", "rke2"} {
		files := fstest.MapFS{"var/lib/rancher/" + distribution + "/agent/etc/containerd/config.toml": config}
		c := New(Options{Address: k3sSocket, Files: files})
		require.Equal(t, "stargz", snapshotterOf(c.config(t.Context())), distribution)
		c = New(Options{Address: "/elsewhere.sock", Files: files})
		require.Empty(t, c.config(t.Context()), "it is another's")
		c = New(Options{Address: k3sSocket, Files: files, Getenv: func(string) string { return "native" }})
		require.Empty(t, c.config(t.Context()), "ctr reads the variable itself")
	}
}
