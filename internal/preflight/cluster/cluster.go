// Package cluster owns the way to a cluster's API: credentials, one question of a preflight over the wire, and what failures
// there are worth. It knows neither the schedule nor what the answers are for.
package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/pullonce/pullonce/internal/command"
	"github.com/pullonce/pullonce/internal/oneline"
	"github.com/pullonce/pullonce/internal/preflight"
	"github.com/pullonce/pullonce/internal/preflight/kubeconfig"
)

const (
	// reviews is where a cluster takes the questions of a user about themselves.
	reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	// maxAnswer bounds the body of an answer, in bytes.
	maxAnswer = 1 << 20
)

// Options of Open.
type Options struct {
	// Source says which cluster is meant.
	Source kubeconfig.Source
	// Runner runs programs that make credentials; it is required where the configuration names one.
	Runner command.Runner
	// Dial connects to the API or its proxy; nil is the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// API is the API of one cluster, asked as one user. Safe for concurrent use.
type API struct {
	opts      Options
	plugin    *plugin
	server    string
	user      string
	namespace string
}

var _ preflight.Asker = (*API)(nil)

// Open finds out which cluster is meant and as whom it is asked. It sends nothing.
func Open(o Options) (*API, error) {
	config, err := o.Source.Load()
	if err != nil {
		return nil, err
	}
	address, err := address(config.Cluster)
	if err != nil {
		return nil, err
	}
	user, err := fingerprint(config.User)
	if err != nil {
		return nil, err
	}
	return &API{
		opts: o, plugin: newPlugin(o.Runner), server: address.Redacted(), user: user, namespace: cmp.Or(config.Namespace, "default"),
	}, nil
}

// Server is the address of the API.
func (a *API) Server() string { return a.server }

// User stands for the user as whom the API is asked: the same text for the same user, and no secret. It is "" where that
// can't be told, because a program makes the credentials.
func (a *API) User() string { return a.user }

// Namespace is that of the configuration.
func (a *API) Namespace() string { return a.namespace }

// address is where the server is. Without a scheme it is http, as for kubectl.
func address(c kubeconfig.Cluster) (*url.URL, error) {
	server := c.Server
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the cluster's server is no address: write it as in https://HOST:6443")
	}
	u.RawQuery, u.Fragment = "", ""
	return u, nil
}

// review is the part of a SelfSubjectAccessReview that is written and read here (authorization.k8s.io/v1).
type review struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Spec       reviewSpec   `json:"spec"`
	Status     reviewStatus `json:"status"`
}

type reviewSpec struct {
	ResourceAttributes resourceAttributes `json:"resourceAttributes"`
}

type resourceAttributes struct {
	Namespace   string `json:"namespace,omitempty"`
	Verb        string `json:"verb"`
	Group       string `json:"group,omitempty"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
}

type reviewStatus struct {
	Allowed         *bool  `json:"allowed,omitempty"`
	Reason          string `json:"reason,omitempty"`
	EvaluationError string `json:"evaluationError,omitempty"`
}

// Ask implements preflight.Asker. Each call reads configuration, certificates and token anew, sends an object of its own,
// and makes a connection of its own: one that hangs, or leads to a server that is about to end, is not met twice.
func (a *API) Ask(ctx context.Context, q preflight.Question) (preflight.Answer, error) {
	config, err := a.opts.Source.Load()
	if err != nil {
		return preflight.Answer{}, unreadable(err)
	}
	address, err := address(config.Cluster)
	if err != nil {
		return preflight.Answer{}, unreadable(err)
	}
	who := &credential{}
	if address.Scheme == "https" { // what has no TLS gets no credentials
		if who, err = a.credential(ctx, config); err != nil {
			return preflight.Answer{}, unreadable(err)
		}
	}
	wire, err := a.wire(ctx, config.Cluster, who)
	if err != nil {
		return preflight.Answer{}, unreadable(err)
	}
	req, err := request(ctx, address, q)
	if err != nil {
		return preflight.Answer{}, unreadable(err)
	}
	who.sign(req.Header)
	resp, err := wire.RoundTrip(req)
	if err != nil {
		return preflight.Answer{}, unreachable(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return preflight.Answer{}, unreachable(err)
	}
	if resp.StatusCode == http.StatusUnauthorized {
		a.plugin.forget(ctx, who)
	}
	return read(resp, body)
}

func request(ctx context.Context, address *url.URL, q preflight.Question) (*http.Request, error) {
	question := review{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}
	question.Spec.ResourceAttributes = resourceAttributes{
		Namespace: q.Namespace, Verb: q.Verb, Group: q.Group, Resource: q.Resource, Subresource: q.Subresource,
	}
	body, err := json.Marshal(question)
	if err != nil {
		return nil, fmt.Errorf("writing the question: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address.JoinPath(reviews).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("writing the question: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "pullonce-preflight")
	return req, nil
}

// read makes an answer of a response. That something is not allowed is one, a status that says so of the question itself
// is not.
func read(resp *http.Response, body []byte) (preflight.Answer, error) {
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		return preflight.Answer{}, refused(resp, body)
	}
	var answered review
	if err := json.Unmarshal(body, &answered); err != nil || answered.Status.Allowed == nil {
		return preflight.Answer{}, notAnAnswer(body)
	}
	status := answered.Status
	return preflight.Answer{Allowed: *status.Allowed, Reason: oneline.Of(cmp.Or(status.Reason, status.EvaluationError))}, nil
}
