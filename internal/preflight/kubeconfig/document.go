package kubeconfig

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a kubeconfig file, in bytes.
const maxFile = 4 << 20

// execExtension is the name of the extension of a cluster that is for credential plugins.
const execExtension = "client.authentication.k8s.io/exec"

// document is a kubeconfig file as it is written (k8s.io/client-go/tools/clientcmd/api/v1). What is not needed here is
// not read.
type document struct {
	CurrentContext string `yaml:"current-context"`
	Clusters       []struct {
		Name    string       `yaml:"name"`
		Cluster clusterEntry `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string    `yaml:"name"`
		User userEntry `yaml:"user"`
	} `yaml:"users"`
	Contexts []struct {
		Name    string       `yaml:"name"`
		Context contextEntry `yaml:"context"`
	} `yaml:"contexts"`
}

type clusterEntry struct {
	Server             string  `yaml:"server"`
	ServerName         string  `yaml:"tls-server-name"`
	Insecure           bool    `yaml:"insecure-skip-tls-verify"`
	Authority          string  `yaml:"certificate-authority"`
	AuthorityData      encoded `yaml:"certificate-authority-data"`
	ProxyURL           string  `yaml:"proxy-url"`
	DisableCompression bool    `yaml:"disable-compression"`
	Extensions         []struct {
		Name      string `yaml:"name"`
		Extension any    `yaml:"extension"`
	} `yaml:"extensions"`
}

type userEntry struct {
	Certificate     string              `yaml:"client-certificate"`
	CertificateData encoded             `yaml:"client-certificate-data"`
	Key             string              `yaml:"client-key"`
	KeyData         encoded             `yaml:"client-key-data"`
	Token           string              `yaml:"token"`
	TokenFile       string              `yaml:"tokenFile"`
	Username        string              `yaml:"username"`
	Password        string              `yaml:"password"`
	As              string              `yaml:"as"`
	AsUID           string              `yaml:"as-uid"`
	AsGroups        []string            `yaml:"as-groups"`
	AsExtra         map[string][]string `yaml:"as-user-extra"`
	Exec            *Exec               `yaml:"exec"`
	Provider        *struct {
		Name string `yaml:"name"`
	} `yaml:"auth-provider"`
}

type contextEntry struct {
	Cluster   string `yaml:"cluster"`
	User      string `yaml:"user"`
	Namespace string `yaml:"namespace"`
}

// encoded is what is written in base64.
type encoded []byte

var _ yaml.Unmarshaler = (*encoded)(nil)

// UnmarshalYAML implements yaml.Unmarshaler.
func (e *encoded) UnmarshalYAML(node *yaml.Node) error {
	var text string
	if err := node.Decode(&text); err != nil {
		return err
	}
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return fmt.Errorf("line %d: %w", node.Line, err)
	}
	*e = data
	return nil
}

// read reads a kubeconfig file. Paths in it count from its folder.
func read(path string) (document, error) {
	file, err := os.Open(path)
	if err != nil {
		return document{}, fmt.Errorf("reading a kubeconfig file: %w", err)
	}
	defer file.Close()
	var d document
	if err := yaml.NewDecoder(io.LimitReader(file, maxFile)).Decode(&d); err != nil && !errors.Is(err, io.EOF) {
		return document{}, fmt.Errorf("reading %s: %w", path, err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return document{}, fmt.Errorf("reading %s: %w", path, err)
	}
	d.resolve(dir)
	return d, d.duplicates(path)
}

// resolve makes the paths of a file absolute.
func (d document) resolve(dir string) {
	from := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	for i := range d.Clusters {
		from(&d.Clusters[i].Cluster.Authority)
	}
	for i := range d.Users {
		u := &d.Users[i].User
		from(&u.Certificate)
		from(&u.Key)
		from(&u.TokenFile)
		if u.Exec != nil && strings.ContainsRune(u.Exec.Command, filepath.Separator) { // else it is looked up on PATH
			from(&u.Exec.Command)
		}
	}
}

// duplicates refuses a file in which one name stands for two entries.
func (d document) duplicates(path string) error {
	seen := map[string]bool{}
	var errs []error
	note := func(kind, name string) {
		if seen[kind+name] {
			errs = append(errs, fmt.Errorf("reading %s: there are two %ss %q", path, kind, name))
		}
		seen[kind+name] = true
	}
	for _, e := range d.Clusters {
		note("cluster", e.Name)
	}
	for _, e := range d.Users {
		note("user", e.Name)
	}
	for _, e := range d.Contexts {
		note("context", e.Name)
	}
	return errors.Join(errs...)
}

// merged is what several files are together.
type merged struct {
	current  string
	clusters map[string]clusterEntry
	users    map[string]userEntry
	contexts map[string]contextEntry
}

// merge makes one of files: of what several have under one name, the first has it.
func merge(files []document) merged {
	m := merged{clusters: map[string]clusterEntry{}, users: map[string]userEntry{}, contexts: map[string]contextEntry{}}
	for _, file := range files {
		if m.current == "" {
			m.current = file.CurrentContext
		}
		for _, e := range file.Clusters {
			addFirst(m.clusters, e.Name, e.Cluster)
		}
		for _, e := range file.Users {
			addFirst(m.users, e.Name, e.User)
		}
		for _, e := range file.Contexts {
			addFirst(m.contexts, e.Name, e.Context)
		}
	}
	return m
}

func addFirst[T any](entries map[string]T, name string, entry T) {
	if _, ok := entries[name]; !ok {
		entries[name] = entry
	}
}

func (m merged) empty() bool {
	return m.current == "" && len(m.clusters)+len(m.users)+len(m.contexts) == 0
}

// config is what a context stands for; "" is the current one.
func (m merged) config(name string) (Config, error) {
	if name == "" {
		name = m.current
	}
	if name == "" {
		return Config{}, errors.New("no context is named, and none is the current one")
	}
	context, ok := m.contexts[name]
	if !ok {
		return Config{}, fmt.Errorf("there is no context %q", name)
	}
	cluster, ok := m.clusters[context.Cluster]
	if !ok {
		return Config{}, fmt.Errorf("context %q: there is no cluster %q", name, context.Cluster)
	}
	user, ok := m.users[context.User]
	if !ok && context.User != "" {
		return Config{}, fmt.Errorf("context %q: there is no user %q", name, context.User)
	}
	c := Config{Cluster: cluster.cluster(), User: user.user(), Namespace: context.Namespace}
	if err := c.check(); err != nil {
		return Config{}, fmt.Errorf("context %q: %w", name, err)
	}
	return c, nil
}

func (e clusterEntry) cluster() Cluster {
	c := Cluster{
		Server: e.Server, ServerName: e.ServerName, Insecure: e.Insecure, Authority: Material{e.AuthorityData, e.Authority},
		ProxyURL: e.ProxyURL, DisableCompression: e.DisableCompression,
	}
	for _, extension := range e.Extensions {
		if extension.Name == execExtension {
			c.Extension = extension.Extension
		}
	}
	return c
}

func (e userEntry) user() User {
	u := User{
		Certificate: Material{e.CertificateData, e.Certificate}, Key: Material{e.KeyData, e.Key},
		Token: e.Token, TokenFile: e.TokenFile, Username: e.Username, Password: e.Password,
		As: Impersonation{e.As, e.AsUID, e.AsGroups, e.AsExtra}, Exec: e.Exec,
	}
	if e.Provider != nil {
		u.Provider = e.Provider.Name
	}
	if u.Exec != nil && u.Exec.InteractiveMode == "" && u.Exec.APIVersion == "client.authentication.k8s.io/v1beta1" {
		u.Exec.InteractiveMode = "IfAvailable"
	}
	return u
}
