// Package registry owns the way from a reference to an image in a registry: credentials, platform, mirrors, pacing per
// host, the classes of what can go wrong, and layers that resume. It does not know keys, stores or targets.
package registry

import (
	"cmp"
	"net/http"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/retry"
)

// Options say how to pull. The zero value pulls anonymously on the default schedule.
type Options struct {
	// Transport carries the requests; NewTransport by default. The limits per attempt are put around it.
	Transport http.RoundTripper
	// Keychain gives credentials, and only where a registry asks for them; DockerKeychain of ConfigDir by default.
	Keychain authn.Keychain
	// ConfigDir is Docker's configuration folder, as in /home/me/.docker; "" is none.
	ConfigDir string
	// Policy is the schedule of attempts; its zero value is the default schedule.
	Policy retry.Policy
	// Mirrors are, by the registry's domain, the hosts that have copies of it, each "host" or "host/prefix".
	Mirrors map[string][]string
	// Insecure says of a domain, port included, that it may be spoken to without TLS; none but loopback by default.
	Insecure func(domain string) bool
	// SpoolDir is a folder for layers on their way. There, a layer is fetched once for all pulls of the Client, and begun
	// again when its bytes turn out wrong. No file in there keeps a name, where the system can do that. Without it layers are streamed, and each reader fetches its own.
	SpoolDir string
	// Notify is told what happens, from any goroutine; it must not block.
	Notify func(Event)
	// Received is told of bytes of layers as they come over the network, for showing progress: the image and how many. It is
	// called from any goroutine and must not block.
	Received func(ref reference.Reference, bytes int)
	// Secret is told of every password and token before it is sent, each once, so that it can be masked wherever it turns up.
	// What this package says of registries never holds one. It is called from any goroutine.
	Secret func(string)
	// UserAgent is sent along; "pullonce" by default.
	UserAgent string
}

// Client pulls from registries. What it learns of a host — pace, scheme, tokens — is shared by all its pulls. Safe for
// concurrent use.
type Client struct {
	options   Options
	transport http.RoundTripper
	keychain  authn.Keychain
	spool     *spool
	secrets   secrets

	mu    sync.Mutex
	hosts map[string]*host
}

// New makes a Client. The caller closes it.
func New(o Options) *Client {
	o.UserAgent = cmp.Or(o.UserAgent, "pullonce")
	c := &Client{options: o, transport: o.Transport, keychain: o.Keychain, hosts: map[string]*host{}}
	if c.transport == nil {
		c.transport = NewTransport()
	}
	if c.keychain == nil {
		c.keychain = DockerKeychain(o.ConfigDir)
	}
	if o.SpoolDir != "" {
		c.spool = newSpool(o.SpoolDir)
	}
	return c
}

// Close removes the spooled layers and lets idle connections go. No pull of the Client is of use after it.
func (c *Client) Close() error {
	if closer, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
	if c.spool == nil {
		return nil
	}
	return c.spool.close()
}
