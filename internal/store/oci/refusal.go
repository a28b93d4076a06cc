package oci

import (
	"fmt"
	"net/http"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullonce/pullonce/internal/store"
)

// sendError says which blob could not be sent.
type sendError struct {
	blob ocispec.Descriptor
	err  error
}

func (e *sendError) Error() string {
	return fmt.Sprintf("sending %s (%d bytes): %s", e.blob.Digest, e.blob.Size, e.err)
}

func (e *sendError) Unwrap() error { return e.err }

// refused says what a registry's refusal to take something means. By then it has been read from with the same
// credentials, so that one which does not allow it is read-only to this run.
func refused(err error) error {
	switch code := status(err); {
	case code == http.StatusRequestEntityTooLarge:
		return fmt.Errorf("the registry, or a proxy before it, takes no blob of this size: %w", err)
	case code == http.StatusInsufficientStorage:
		return fmt.Errorf("the registry has no room left: %w", err)
	case code != 0 && overQuota(err):
		return fmt.Errorf("the registry's quota is used up: %w", err)
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: %w", store.ErrReadOnly, err)
	}
	return err
}

// overQuota finds the words of registries that refuse with another status: Harbor's is 403 or 412, "will exceed the
// configured upper limit".
func overQuota(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "quota") || strings.Contains(text, "exceed the configured upper limit")
}
