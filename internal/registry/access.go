package registry

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/pullonce/pullonce/internal/retry"
)

const (
	// defaultTokenLife is how long a token holds whose server does not say (distribution, "Token Authentication").
	defaultTokenLife = 60 * time.Second
	// tokenMargin is how long before its end a token is no longer used.
	tokenMargin = 10 * time.Second
)

// grant is what a host accepted as leave to pull from one repository.
type grant struct {
	// header is the Authorization header; "" for a host that asks for nothing.
	header string
	// credentials says that it rests on stored credentials.
	credentials bool
	expires     time.Time // zero: never
}

// granted gives the grant that is in force for a repository, if there is one.
func (h *host) granted(repository string, now time.Time) (grant, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, ok := h.grants[repository]
	if ok && !g.expires.IsZero() && now.After(g.expires) {
		delete(h.grants, repository)
		return grant{}, false
	}
	return g, ok
}

// remember keeps a grant that was accepted.
func (h *host) remember(repository string, g grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.grants[repository] = g
	if g.credentials {
		h.pace.SetInterval(0)
	}
}

// forget drops a grant, so that the next attempt gets a fresh one.
func (h *host) forget(repository string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.grants, repository)
}

// challenged keeps what the host asks for, so that the next repository is not asked for in vain first.
func (h *host) challenged(c challenge) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.Parameters = maps.Clone(c.Parameters)
	delete(c.Parameters, "scope")
	delete(c.Parameters, "error")
	h.challenge = &c
}

func (h *host) lastChallenge() (challenge, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.challenge == nil {
		return challenge{}, false
	}
	return *h.challenge, true
}

// withoutCredentials says or sets that the stored credential is not used for a repository.
func (h *host) withoutCredentials(repository string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.anonymous[repository]
}

func (h *host) dropCredentials(repository string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.anonymous[repository] = true
}

// send makes one attempt at a request, with whatever leave it takes. It asks without credentials first, as long as the host
// has not asked for any; a challenge is met once; and a stored credential that is refused is left out once.
func (c *Client) send(ctx context.Context, h *host, r request) (*http.Response, error) {
	g, ok := h.granted(r.repository, time.Now())
	if ch, known := h.lastChallenge(); known && !ok {
		return c.sendAuthorized(ctx, h, r, ch)
	}
	resp, err := c.sendOnce(ctx, h, r, g)
	fault, refused := refusal(err)
	if !refused {
		return resp, err
	}
	h.forget(r.repository)
	ch, ok := fault.cause.(*challengeError)
	if !ok {
		return nil, err
	}
	h.challenged(ch.challenge)
	return c.sendAuthorized(ctx, h, r, ch.challenge)
}

// sendAuthorized gets a fresh grant and sends the request with it.
func (c *Client) sendAuthorized(ctx context.Context, h *host, r request, ch challenge) (*http.Response, error) {
	credential := c.credential(ctx, h, r.repository)
	resp, err := c.sendAs(ctx, h, r, ch, credential)
	if _, refused := refusal(err); !refused || credential == authn.Anonymous || ch.basic() {
		return resp, err
	}
	// A stale credential must not stand in the way of a public image. If that was not it, the first refusal tells more.
	public, anonymousErr := c.sendAs(ctx, h, r, ch, authn.Anonymous)
	if anonymousErr != nil {
		return nil, err
	}
	h.dropCredentials(r.repository)
	c.notify(Event{Kind: Credentials, Host: h.domain, Text: "the stored credential is refused; " + r.repository + " is public and is pulled without it"})
	return public, nil
}

func (c *Client) sendAs(ctx context.Context, h *host, r request, ch challenge, a authn.Authenticator) (*http.Response, error) {
	g, err := c.exchange(ctx, h, r, ch, a)
	if err != nil {
		return nil, err
	}
	resp, err := c.sendOnce(ctx, h, r, g)
	// That something is not there is told to those who were let in.
	if fault, ok := errors.AsType[*Fault](err); err == nil || ok && fault.Status == http.StatusNotFound {
		h.remember(r.repository, g)
	}
	return resp, err
}

// credential finds what is stored for the host. What can't be read does not stand in the way of a public image.
func (c *Client) credential(ctx context.Context, h *host, repository string) authn.Authenticator {
	if h.withoutCredentials(repository) {
		return authn.Anonymous
	}
	a, err := authn.Resolve(ctx, c.keychain, resource{h.domain, repository})
	if err != nil {
		c.notify(Event{Kind: Credentials, Host: h.domain, Text: "the stored credential can't be read: " + clean(err.Error())})
		return authn.Anonymous
	}
	return a
}

// exchange turns a credential, or none, into a grant.
func (c *Client) exchange(ctx context.Context, h *host, r request, ch challenge, a authn.Authenticator) (grant, error) {
	config, err := authn.Authorization(ctx, a)
	if err != nil {
		return grant{}, permanently("reading the stored credential: %s", clean(err.Error())).at(h.domain)
	}
	named := a != authn.Anonymous
	if named {
		c.keepSecret(config.Password, config.IdentityToken, config.RegistryToken, strings.TrimPrefix(basicHeader(config), "Basic "))
	}
	switch {
	case ch.basic() && !named:
		return grant{}, &Fault{Host: h.domain, Status: http.StatusUnauthorized, class: retry.Uncertain, text: "asks for user and password, and none are stored"}
	case ch.basic():
		return grant{header: basicHeader(config), credentials: named}, nil
	case config.RegistryToken != "":
		return grant{header: "Bearer " + config.RegistryToken, credentials: named}, nil
	}
	reg, err := h.registry()
	if err != nil {
		return grant{}, permanently("reading the registry's name: %s", clean(err.Error())).at(h.domain)
	}
	ch.Insecure = h.plain
	courier := &tokenTransport{client: c, host: h, patience: r.patience}
	token, err := transport.Exchange(ctx, reg, a, courier, []string{"repository:" + r.repository + ":pull"}, &ch.Challenge)
	if err != nil {
		return grant{}, networkFault(ctx, h.domain, fmt.Errorf("getting a token: %w", err))
	}
	c.keepSecret(token.AccessToken, token.Token, token.RefreshToken)
	life := cmp.Or(time.Duration(max(0, token.ExpiresIn))*time.Second, defaultTokenLife)
	return grant{
		header:      "Bearer " + cmp.Or(token.AccessToken, token.Token),
		credentials: named,
		expires:     time.Now().Add(max(life-tokenMargin, life/2)),
	}, nil
}

func basicHeader(config *authn.AuthConfig) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(config.Username+":"+config.Password))
}

// refusal finds out whether err is the host's 401 or 403.
func refusal(err error) (*Fault, bool) {
	fault, ok := errors.AsType[*Fault](err)
	return fault, ok && (fault.Status == http.StatusUnauthorized || fault.Status == http.StatusForbidden)
}

// challengeError is the cause of a refusal that says what to bring.
type challengeError struct{ challenge challenge }

func (e *challengeError) Error() string {
	return fmt.Sprintf("asks for %s credentials", e.challenge.Scheme)
}

// resource is a repository in the terms of a keychain.
type resource struct{ domain, repository string }

var _ authn.Resource = resource{}

// String is the repository with its registry.
func (r resource) String() string { return r.domain + "/" + r.repository }

// RegistryStr is the registry.
func (r resource) RegistryStr() string { return r.domain }
