package actions

import (
	"context"

	"github.com/pullonce/pullonce/internal/store/actions/entry"
)

// buffers are the memory for blocks on their way out, shared by all that is saved at once. Each is made when it is first
// needed. Safe for concurrent use.
type buffers chan []byte

func newBuffers(n int) buffers {
	b := make(buffers, n)
	for range n {
		b <- nil
	}
	return b
}

// get waits for a buffer.
func (b buffers) get(ctx context.Context) ([]byte, error) {
	select {
	case buf := <-b:
		if buf == nil {
			buf = make([]byte, 0, entry.BlockSize)
		}
		return buf[:0], nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// put gives a buffer back.
func (b buffers) put(buf []byte) { b <- buf }
