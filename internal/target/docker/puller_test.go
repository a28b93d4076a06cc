package docker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
)

// puller is the part of an engine that pulls one manifest.
type puller struct {
	base, digest string
}

// servePull is a pull as engines do it: the answer begins at once, and what goes wrong comes in it.
func (e *engine) servePull(w http.ResponseWriter, r *http.Request) {
	host, repository, _ := strings.Cut(r.FormValue("fromImage"), "/")
	p := puller{"http://" + host + "/v2/" + repository, r.FormValue("tag")}
	e.labelPlain(p.digest)
	if e.pull != nil && e.pull(w, r, p) {
		return
	}
	_, _ = io.WriteString(w, `{"status":"Pulling from `+repository+`"}`)
	_ = http.NewResponseController(w).Flush()
	if err := e.pulled(r.Context(), p, r.FormValue("fromImage")+"@"+p.digest); err != nil {
		reply(w, map[string]any{"errorDetail": map[string]string{"message": err.Error()}, "error": err.Error()})
		return
	}
	reply(w, map[string]string{"status": "Digest: " + p.digest})
}

// labelPlain has the digest of a manifest that lists contents shown as new.plain: nobody knows it before it is asked for.
func (e *engine) labelPlain(digest string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.containerd && !slices.Contains(e.labels, digest) {
		e.labels = append(e.labels, digest, "new.plain")
	}
}

// pulled pulls an image and keeps it under a name.
func (e *engine) pulled(ctx context.Context, p puller, name string) error {
	data, err := p.get(ctx, "manifests", p.digest)
	if err != nil {
		return err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(data, &manifest); err != nil {
		return err
	}
	var config ocispec.Image
	if data, err = p.get(ctx, "blobs", manifest.Config.Digest.String()); err != nil {
		return err
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return err
	}
	var layers errgroup.Group
	layers.SetLimit(3)
	for i, l := range manifest.Layers {
		e.mu.Lock()
		there := (e.containerd || e.pulledBefore[l.Digest.String()]) && e.has(config.RootFS.DiffIDs[:i+1])
		e.pulledBefore[l.Digest.String()] = true
		e.mu.Unlock()
		if !there {
			layers.Go(func() (err error) {
				for range 4 { // as containerd's fetcher does, which may be sent away
					if _, err = p.get(ctx, "blobs", l.Digest.String()); err == nil {
						break
					}
				}
				return err
			})
		}
	}
	if err := layers.Wait(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	id := manifest.Config.Digest.String()
	if e.containerd {
		id = p.digest
	}
	e.images[id] = &held{manifest: p.digest, diffIDs: config.RootFS.DiffIDs, available: true, unpacked: true}
	e.names[name] = id
	return nil
}

// get is one document or blob.
func (p puller) get(ctx context.Context, kind, reference string) ([]byte, error) {
	rc, err := p.open(ctx, kind, reference)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(rc)
	if err == nil && digest.FromBytes(data).String() != reference {
		err = errors.New("wrong digest")
	}
	return data, errors.Join(err, rc.Close())
}

func (p puller) open(ctx context.Context, kind, reference string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/"+kind+"/"+reference, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Transport{DialContext: dialNarrow, DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: %s", request.URL.Path, response.Status), response.Body.Close())
	}
	return response.Body, nil
}

// dialNarrow connects with a small receive buffer: with the system's own a layer that nobody reads may be taken all the same.
func dialNarrow(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return conn, conn.(*net.TCPConn).SetReadBuffer(64 << 10)
}
