package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/preflight/kubeconfig"
)

// plugin runs the program that makes credentials, one at a time, and keeps what it made until it expires or is refused.
type plugin struct {
	runner command.Runner
	turn   chan struct{} // holds one value; whoever has taken it may touch what is below
	exec   *kubeconfig.Exec
	made   *credential
}

func newPlugin(runner command.Runner) *plugin {
	p := &plugin{runner: runner, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	return p
}

// credential gives what the program of c made, or has it made. The program ends with ctx.
func (p *plugin) credential(ctx context.Context, c kubeconfig.Config) (*credential, error) {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { p.turn <- struct{}{} }()
	if p.made != nil && reflect.DeepEqual(p.exec, c.User.Exec) && (p.made.expires.IsZero() || time.Now().Before(p.made.expires)) {
		return p.made, nil
	}
	made, err := p.run(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("making credentials: %w", err)
	}
	p.exec, p.made = c.User.Exec, made
	return made, nil
}

// forget drops what the API has refused. Whoever used something older changes nothing.
func (p *plugin) forget(ctx context.Context, refused *credential) {
	if refused.made == nil {
		return
	}
	select {
	case <-p.turn:
	case <-ctx.Done():
		return
	}
	if refused.made == p.made {
		p.made = nil
	}
	p.turn <- struct{}{}
}

// execCredential is what such a program is told, in KUBERNETES_EXEC_INFO, and what it answers, on its standard output
// (client.authentication.k8s.io, v1 and v1beta1).
type execCredential struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Cluster     *execCluster `json:"cluster,omitempty"`
		Interactive bool         `json:"interactive"`
	} `json:"spec"`
	Status *execStatus `json:"status,omitempty"`
}

type execCluster struct {
	Server             string `json:"server"`
	ServerName         string `json:"tls-server-name,omitempty"`
	Insecure           bool   `json:"insecure-skip-tls-verify,omitempty"`
	Authority          []byte `json:"certificate-authority-data,omitempty"`
	ProxyURL           string `json:"proxy-url,omitempty"`
	DisableCompression bool   `json:"disable-compression,omitempty"`
	Config             any    `json:"config,omitempty"`
}

type execStatus struct {
	Expires     time.Time `json:"expirationTimestamp"`
	Token       string    `json:"token"`
	Certificate string    `json:"clientCertificateData"`
	Key         string    `json:"clientKeyData"`
}

func (p *plugin) run(ctx context.Context, c kubeconfig.Config) (*credential, error) {
	told, err := tell(c)
	if err != nil {
		return nil, err
	}
	program := command.Command{Argv: append([]string{c.User.Exec.Command}, c.User.Exec.Args...)}
	for _, variable := range c.User.Exec.Env {
		program.Env = append(program.Env, variable.Name+"="+variable.Value)
	}
	program.Env = append(program.Env, "KUBERNETES_EXEC_INFO="+string(told))
	out, err := p.runner.Run(ctx, program)
	if errors.Is(err, command.ErrNotFound) && c.User.Exec.InstallHint != "" {
		return nil, fmt.Errorf("%w (%s)", err, oneline.Of(c.User.Exec.InstallHint))
	}
	if err != nil {
		return nil, withoutOutput(err)
	}
	return answered(c.User.Exec, []byte(out.Stdout))
}

// withoutOutput leaves out what a failed program wrote to its standard output, which is where credentials go.
func withoutOutput(err error) error {
	if failed, ok := errors.AsType[*command.Error](err); ok {
		bare := *failed
		bare.Output.Stdout = ""
		return &bare
	}
	return err
}

// tell writes what the program is told.
func tell(c kubeconfig.Config) ([]byte, error) {
	told := execCredential{APIVersion: c.User.Exec.APIVersion, Kind: "ExecCredential"}
	if c.User.Exec.ProvideClusterInfo {
		authority, err := c.Cluster.Authority.Read()
		if err != nil {
			return nil, fmt.Errorf("reading the cluster's authority: %w", err)
		}
		told.Spec.Cluster = &execCluster{
			c.Cluster.Server, c.Cluster.ServerName, c.Cluster.Insecure, authority, c.Cluster.ProxyURL, c.Cluster.DisableCompression,
			c.Cluster.Extension,
		}
	}
	return json.Marshal(told)
}

// answered makes credentials of what the program wrote. Nothing of that is in an error.
func answered(e *kubeconfig.Exec, data []byte) (*credential, error) {
	var told execCredential
	if json.Unmarshal(data, &told) != nil || told.Kind != "ExecCredential" {
		return nil, fmt.Errorf("%s: its output is no ExecCredential", e.Command)
	}
	switch status := told.Status; {
	case told.APIVersion != e.APIVersion:
		return nil, fmt.Errorf("%s: it answers in %q, and %q is configured", e.Command, oneline.Of(told.APIVersion), e.APIVersion)
	case status == nil || status.Token == "" && status.Certificate == "" && status.Key == "":
		return nil, fmt.Errorf("%s: it made no credentials", e.Command)
	}
	made := &credential{expires: told.Status.Expires}
	if told.Status.Token != "" {
		made.authorization = "Bearer " + told.Status.Token
	}
	if told.Status.Certificate == "" && told.Status.Key == "" {
		return made, nil
	}
	var err error
	made.certificate, err = pair(bytesOrNil(told.Status.Certificate), bytesOrNil(told.Status.Key))
	return made, err
}

func bytesOrNil(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}
