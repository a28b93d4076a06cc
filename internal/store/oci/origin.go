package oci

import (
	"io"
	"sync"
)

// origin remembers what went wrong while a blob was read to be sent. The registry's complaint about the rest tells less,
// and which of the two is heard first is chance. The zero value is ready. Safe for concurrent use.
type origin struct {
	mu  sync.Mutex
	err error
}

// watch is what was opened, watched.
func (o *origin) watch(rc io.ReadCloser, err error) (io.ReadCloser, error) {
	if err != nil {
		o.note(err)
		return nil, err
	}
	return watched{rc, o}, nil
}

func (o *origin) note(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}

// blame is what went wrong here, where err says that something did.
func (o *origin) blame(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && o.err != nil {
		return o.err
	}
	return err
}

type watched struct {
	io.ReadCloser
	origin *origin
}

// Read implements io.Reader.
func (w watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		w.origin.note(err)
	}
	return n, err
}
