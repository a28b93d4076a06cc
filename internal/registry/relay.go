package registry

import (
	"context"
	"io"
)

// Relay hands layer i to use as it comes from the registry, without a place in the spool. use reads it to its end: io.EOF
// there says that it was the right blob. Where it was another one, use has the error of that, and once it has returned it,
// it is called again, from the first byte on, as long as the schedule allows.
func (p *Pull) Relay(ctx context.Context, i int, use func(io.Reader) error) error {
	return p.fetch.straight(ctx, p.Image.Layers()[i].Descriptor, use)
}
