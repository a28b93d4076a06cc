package registry

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullonce/pullonce/internal/reference"
)

// anonymous is a keychain without keys.
type anonymous struct{}

// Resolve implements authn.Keychain.
func (anonymous) Resolve(authn.Resource) (authn.Authenticator, error) { return authn.Anonymous, nil }

// Public says whether the registry serves the image to anybody, without credentials. It asks with one HEAD. A registry that
// hides what is private, and says that it is not there, is understood; one that does not answer is an error.
func (c *Client) Public(ctx context.Context, ref reference.Reference) (bool, error) {
	o := c.options
	o.Transport, o.Keychain, o.SpoolDir = c.transport, anonymous{}, ""
	_, err := New(o).Digest(ctx, ref)
	if err == nil {
		return true, nil
	}
	fault, ok := errors.AsType[*Fault](err)
	if ok && (fault.Status == http.StatusUnauthorized || fault.Status == http.StatusForbidden || fault.Status == http.StatusNotFound) {
		return false, nil
	}
	return false, err
}
