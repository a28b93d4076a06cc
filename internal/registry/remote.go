package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/pullonce/pullonce/internal/image"
	"github.com/pullonce/pullonce/internal/reference"
	"github.com/pullonce/pullonce/internal/retry"
)

// Manifest fetches the manifest or index that ref names, by its digest where it has one, whatever it is an image of.
func (c *Client) Manifest(ctx context.Context, ref reference.Reference) ([]byte, error) {
	doc, err := c.newFetch(ref).document(ctx, rootName(ref), ref.Digest())
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", ref.Familiar(), err)
	}
	return doc.data, nil
}

// Blobs gives the blobs of ref's repository, as a Pull gives the layers of its image: resumed where they break off, and
// from the spool where there is one.
func (c *Client) Blobs(ref reference.Reference) image.Source { return c.newFetch(ref) }

// Hold keeps the layers of img in the spool, once they are there, until release is called. Without a spool it does
// nothing.
func (c *Client) Hold(img image.Image) (release func() error) {
	if c.spool == nil {
		return func() error { return nil }
	}
	c.spool.hold(layersOf(img))
	return func() error { return c.spool.release(layersOf(img)) }
}

// Remote is what go-containerregistry's remote package needs to work on ref's repository as the Client itself does: with
// the same credentials, within the same limits, at the pace that its host asks of all pulls. Nothing is tried again in
// there: Do is the loop around it.
func (c *Client) Remote(ref reference.Reference) (name.Repository, []remote.Option, error) {
	h := c.host(ref.Domain())
	options := []name.Option{name.WeakValidation}
	if h.plain {
		options = append(options, name.Insecure)
	}
	repository, err := name.NewRepository(ref.Repository(), options...)
	if err != nil {
		return name.Repository{}, nil, permanently("reading the repository's name: %s", clean(err.Error())).at(h.domain)
	}
	return repository, []remote.Option{
		remote.WithTransport(&carrier{client: c, patience: c.newFetch(ref).budget}),
		remote.WithAuthFromKeychain(&remoteKeychain{client: c, resource: resource{h.domain, ref.Path()}}),
		remote.WithUserAgent(c.options.UserAgent),
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}), // a zero Backoff sends nothing at all
	}, nil
}

// Do does op, a call of the remote package on ref's repository, on the schedule of a pull. What op says is classified as
// what a registry says to a pull; the failure to read an image that op sends is not tried again, because that was.
func (c *Client) Do(ctx context.Context, ref reference.Reference, op func(ctx context.Context) error) error {
	f := c.newFetch(ref)
	return f.budget.run(ctx, f.policy(), func(ctx context.Context) error {
		if err := op(ctx); err != nil {
			return c.remoteFault(ctx, ref.Domain(), err)
		}
		return nil
	})
}

// remoteFault classifies what the remote package returned.
func (c *Client) remoteFault(ctx context.Context, domain string, err error) error {
	if errors.Is(err, image.ErrRead) {
		return &Fault{class: retry.Permanent, text: err.Error(), cause: err}
	}
	if answer, ok := errors.AsType[*transport.Error](err); ok && ctx.Err() == nil {
		return c.answeredFault(domain, answer)
	}
	// Another call's end, which this one had joined: the package does what two ask for once.
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return transiently("what another call had begun was interrupted").at(domain)
	}
	return networkFault(ctx, domain, err)
}

// answeredFault is for the answers that a carrier lets pass and the remote package refuses.
func (c *Client) answeredFault(domain string, answer *transport.Error) *Fault {
	var said []string
	var codes strings.Builder
	for _, d := range answer.Errors {
		code := strings.ToLower(string(d.Code))
		fmt.Fprintf(&codes, "%q ", code)
		said = append(said, strings.TrimPrefix(code+": "+d.Message, ": "))
	}
	status := fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	return &Fault{
		Host: domain, Status: answer.StatusCode,
		class: classify(observation{status: answer.StatusCode, text: codes.String()}).class,
		text:  strings.TrimSuffix(strings.TrimSpace(status)+": "+clean(c.secrets.hide(strings.Join(said, "; "))), ": "),
	}
}

// remoteKeychain gives the credentials for one repository, whatever the remote package calls its registry.
type remoteKeychain struct {
	client   *Client
	resource resource
}

var _ authn.ContextKeychain = (*remoteKeychain)(nil)

// Resolve implements authn.Keychain.
func (k *remoteKeychain) Resolve(r authn.Resource) (authn.Authenticator, error) {
	return k.ResolveContext(context.Background(), r)
}

// ResolveContext implements authn.ContextKeychain.
func (k *remoteKeychain) ResolveContext(ctx context.Context, _ authn.Resource) (authn.Authenticator, error) {
	a, err := authn.Resolve(ctx, k.client.keychain, k.resource)
	if err != nil {
		return nil, permanently("reading the stored credential: %s", clean(err.Error()))
	}
	if a == authn.Anonymous {
		return a, nil
	}
	config, err := authn.Authorization(ctx, a)
	if err != nil {
		return nil, permanently("reading the stored credential: %s", clean(err.Error()))
	}
	k.client.keepSecret(config.Password, config.IdentityToken, config.RegistryToken, strings.TrimPrefix(basicHeader(config), "Basic "))
	return a, nil
}
