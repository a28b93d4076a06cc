package docker

import (
	"context"

	"github.com/moby/moby/client"
)

// API is the client of the daemon's Engine API, for targets that live in it, once the daemon has said who it is; one
// that is not there is target.ErrUnavailable. It is d's own and ends with d.
func (d *Docker) API(ctx context.Context) (*client.Client, error) {
	if _, err := d.daemon(ctx); err != nil {
		return nil, err
	}
	return d.api, nil
}
