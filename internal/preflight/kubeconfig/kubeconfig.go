// Package kubeconfig owns where a cluster is and as whom it is asked: kubeconfig files, their contexts and how several
// are one, and the service account of a pod. It gives plain data, reads no credential that is in a file of its own, and
// sends nothing.
//
// It reads what k8s.io/client-go/tools/clientcmd reads, and its tests hold it to that. The module itself would be a fifth
// of the binary, which every lane of a matrix downloads.
package kubeconfig

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// serviceAccount is the folder in which a pod finds its token, its namespace and the certificate of the API.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// ErrNone says that nothing tells where the cluster is.
var ErrNone = errors.New("no cluster is configured")

// Source says which configuration is meant. The order is kubectl's: Path, the files that $KUBECONFIG names,
// ~/.kube/config, the service account of the pod.
type Source struct {
	// Path is the path of a kubeconfig file, or "".
	Path string
	// Context is the context in it; "" is the current one.
	Context string
	// LookupEnv looks up an environment variable. It is required.
	LookupEnv func(string) (string, bool)
	// ServiceAccount is the folder of the pod's credentials, by default the one that Kubernetes mounts.
	ServiceAccount string
}

// Config is how the API of a cluster is reached, and as whom.
type Config struct {
	Cluster Cluster
	User    User
	// Namespace is that of the context or the pod, or "".
	Namespace string
}

// Cluster is how an API is reached.
type Cluster struct {
	// Server is the address, as in https://10.0.0.1:6443.
	Server string
	// ServerName is the name that the server's certificate is for, where that is not the address's host.
	ServerName string
	// Insecure takes any certificate.
	Insecure bool
	// Authority is the certificate of the authority; without one the system's are taken.
	Authority Material
	// ProxyURL is the proxy on the way, or "" for the one that the environment names.
	ProxyURL string
	// DisableCompression and Extension are of no use here; credential plugins are told of them.
	DisableCompression bool
	Extension          any
}

// User is who asks. Several kinds of credentials may be there at once.
type User struct {
	Certificate, Key Material
	// Token is a bearer token. If there is a TokenFile, what is in it counts.
	Token, TokenFile   string
	Username, Password string
	As                 Impersonation
	// Exec makes credentials, or is nil.
	Exec *Exec
	// Provider is the name of a kind of credentials that clients have given up, or "".
	Provider string
}

// Material is a certificate or a key: the PEM itself, or else the file that it is in.
type Material struct {
	PEM  []byte
	File string
}

func (m Material) there() bool { return len(m.PEM) > 0 || m.File != "" }

// Read gives the PEM. It is nil where there is none.
func (m Material) Read() ([]byte, error) {
	if len(m.PEM) > 0 || m.File == "" {
		return m.PEM, nil
	}
	return os.ReadFile(m.File)
}

// Impersonation is another user as whom the API is to take this one.
type Impersonation struct {
	User, UID string
	Groups    []string
	Extra     map[string][]string
}

// Exec is a program that makes credentials (client.authentication.k8s.io).
type Exec struct {
	APIVersion         string     `yaml:"apiVersion"`
	Command            string     `yaml:"command"`
	Args               []string   `yaml:"args"`
	Env                []Variable `yaml:"env"`
	InstallHint        string     `yaml:"installHint"`
	ProvideClusterInfo bool       `yaml:"provideClusterInfo"`
	// InteractiveMode is "Never", "IfAvailable" or "Always".
	InteractiveMode string `yaml:"interactiveMode"`
}

// Variable is a variable of the environment of such a program.
type Variable struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

// Load reads the configuration as it stands at the moment. That there is none is ErrNone.
func (s Source) Load() (Config, error) {
	files, err := s.files()
	if err != nil {
		return Config{}, err
	}
	if merged := merge(files); !merged.empty() || s.Path != "" || s.Context != "" {
		return merged.config(s.Context)
	}
	config, err := s.pod()
	if missing := s.getenv("KUBECONFIG"); errors.Is(err, ErrNone) && len(files) == 0 && missing != "" {
		return Config{}, fmt.Errorf("%w: KUBECONFIG names %s, and there is no such file", err, missing)
	}
	return config, err
}

// paths are the kubeconfig files to look for.
func (s Source) paths() []string {
	if s.Path != "" {
		return []string{s.Path}
	}
	if files := s.getenv("KUBECONFIG"); files != "" {
		return filepath.SplitList(files)
	}
	if home := cmp.Or(s.getenv("HOME"), s.getenv("USERPROFILE")); home != "" {
		return []string{filepath.Join(home, ".kube", "config")}
	}
	return nil
}

// files reads the kubeconfig files that are there. The one that was named must be.
func (s Source) files() ([]document, error) {
	var files []document
	var errs []error
	for _, path := range s.paths() {
		if path == "" {
			continue
		}
		file, err := read(path)
		if errors.Is(err, fs.ErrNotExist) && s.Path == "" {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		files = append(files, file)
	}
	return files, errors.Join(errs...)
}

// pod is the configuration of a pod. Its token is renewed now and then, in the same file.
func (s Source) pod() (Config, error) {
	host, port := s.getenv("KUBERNETES_SERVICE_HOST"), s.getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return Config{}, ErrNone
	}
	dir := cmp.Or(s.ServiceAccount, serviceAccount)
	c := Config{
		Cluster: Cluster{Server: "https://" + net.JoinHostPort(host, port), Authority: Material{File: filepath.Join(dir, "ca.crt")}},
		User:    User{TokenFile: filepath.Join(dir, "token")},
	}
	namespace, err := os.ReadFile(filepath.Join(dir, "namespace"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Config{}, fmt.Errorf("reading the pod's namespace: %w", err)
	}
	c.Namespace = strings.TrimSpace(string(namespace))
	return c, nil
}

func (s Source) getenv(name string) string {
	value, _ := s.LookupEnv(name)
	return value
}
