//go:build linux

package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/image"
)

// kubelet is a place as the kubelet sees it: through the CRI plugin of its containerd.
type kubelet struct {
	place
	// crictl runs crictl there; put makes a file in dir, where it reads them.
	crictl func(t *testing.T, args ...string) (string, error)
	put    func(t *testing.T, name, content string)
	dir    string
	pod    string
}

// startKubelet gives the place its sandbox image, which the target loads as any other, and a pod.
func startKubelet(t *testing.T, k kubelet) *kubelet {
	t.Helper()
	sandbox := layered(t, ociTypes, base(t), "pause")
	config, err := sandbox.ConfigFile()
	require.NoError(t, err)
	config.Config.Cmd = []string{busybox, "sleep", "100000"}
	sandbox, err = mutate.ConfigFile(sandbox, config)
	require.NoError(t, err)
	_, err = k.target(t).Load(t.Context(), loadable(t, "e2e.test/pause:1", sandbox, sandbox))
	require.NoError(t, err)

	k.write(t, "pod.json", map[string]any{
		"metadata": map[string]any{"name": "probe", "namespace": "e2e", "uid": filepath.Base(t.TempDir()) + t.Name()},
		"linux":    map[string]any{"security_context": map[string]any{"namespace_options": map[string]any{"network": 2}}},
	})
	k.pod, err = k.crictl(t, "runp", k.dir+"/pod.json")
	require.NoError(t, err)
	k.pod = strings.TrimSpace(k.pod)
	t.Cleanup(func() {
		_, err := k.crictl(t, "rmp", "--force", k.pod)
		require.NoError(t, err)
	})
	return &k
}

// write puts a JSON file where crictl reads it.
func (k *kubelet) write(t *testing.T, name string, value any) {
	t.Helper()
	data, err := json.Marshal(value)
	require.NoError(t, err)
	k.put(t, name, string(data))
}

// create does what the kubelet does for a pod with the policy IfNotPresent: it asks for the image by the name in the
// pod's spec, and makes the container of what that is. Here there is nowhere to pull one from that is not there.
func (k *kubelet) create(t *testing.T, ref string) error {
	id, err := k.container(t, ref)
	if err == nil {
		_, err = k.crictl(t, "rm", id)
	}
	return err
}

func (k *kubelet) container(t *testing.T, ref string) (id string, err error) {
	t.Helper()
	image, err := k.crictl(t, "inspecti", "--output", "go-template", "--template", "{{.status.id}}", ref)
	if err != nil {
		return "", err
	}
	k.write(t, "container.json", map[string]any{
		"metadata": map[string]any{"name": "probe"}, "image": map[string]any{"image": strings.TrimSpace(image)}, "linux": map[string]any{},
	})
	id, err = k.crictl(t, "create", "--no-pull", k.pod, k.dir+"/container.json", k.dir+"/pod.json")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(id), nil
}

// kubelet is this containerd as the kubelet sees it.
func (p *containerdPlace) kubelet(t *testing.T) *kubelet {
	t.Helper()
	crictl, dir := engine{}.path(t, "crictl"), tempDir(t)
	return startKubelet(t, kubelet{
		place: p,
		dir:   dir,
		crictl: func(t *testing.T, args ...string) (string, error) {
			return output(t, nil, append([]string{crictl, "--runtime-endpoint", "unix://" + p.socket}, args...)...)
		},
		put: func(t *testing.T, name, content string) { writeFile(t, dir, name, content) },
	})
}

// kubelet is the cluster as the kubelet of its control plane sees it.
func (p *kindPlace) kubelet(t *testing.T) *kubelet {
	t.Helper()
	node := p.nodes[0]
	return startKubelet(t, kubelet{
		place: p,
		dir:   "/tmp",
		crictl: func(t *testing.T, args ...string) (string, error) {
			argv := []string{"docker", "exec", node, "crictl", "--runtime-endpoint", "unix:///run/containerd/containerd.sock"}
			return output(t, p.d.client(), append(argv, args...)...)
		},
		put: func(t *testing.T, name, content string) {
			p.docker(t, "exec", node, "busybox", "sh", "-c", `printf %s "$2" >"/tmp/$1"`, "sh", name, content)
		},
	})
}

// A pod that names its image by tag and digest, as charts do, runs to a good end where nothing could be pulled: of the
// registry's own layers, of ones in zstd, and of an image that came in parts.
func TestPodRunsByDigest(t *testing.T) {
	gate(t)
	for _, name := range []string{"containerd", "kind"} {
		for _, e := range engines() {
			t.Run(name+"-"+e.version(), func(t *testing.T) {
				k := kubelets()[name](t, e)
				for form, img := range map[string]image.Image{
					"exact": indexed(t, "e2e.test/pod:1", "pod"),
					"zstd":  recompressed(t, indexed(t, "e2e.test/pod-zstd:1", "zstd")),
					"parts": thick(t, 2, "pod")[0],
				} {
					t.Run(form, func(t *testing.T) { k.runsByDigest(t, img) })
				}
			})
		}
	}
}

func (k *kubelet) runsByDigest(t *testing.T, img image.Image) {
	t.Helper()
	pinned := img.Reference().Tagged() + "@" + img.Root().Digest.String()
	_, err := k.target(t).Load(t.Context(), img)
	require.NoError(t, err)
	id, err := k.container(t, pinned)
	require.NoError(t, err)
	_, err = k.crictl(t, "start", id)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		state, err := k.crictl(t, "inspect", "--output", "go-template", "--template", "{{.status.state}} {{.status.exitCode}}", id)
		require.NoError(t, err)
		return strings.TrimSpace(state) == "CONTAINER_EXITED 0"
	}, patience, 50*time.Millisecond)
	_, err = k.crictl(t, "rm", id)
	require.NoError(t, err)
	listed, err := k.crictl(t, "images")
	require.NoError(t, err)
	require.NotContains(t, listed, "pullonce.invalid")
}

// kubelets are the kubelets' views, by the name of the place.
func kubelets() map[string]func(t *testing.T, e engine) *kubelet {
	return map[string]func(t *testing.T, e engine) *kubelet{
		"containerd": func(t *testing.T, e engine) *kubelet { return e.startContainerd(t).kubelet(t) },
		"kind":       func(t *testing.T, e engine) *kubelet { return startKind(t, e.start(t), "native").kubelet(t) },
	}
}
