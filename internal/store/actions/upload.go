package actions

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"golang.org/x/sync/errgroup"

	"github.com/pullonce/pullonce/internal/store/actions/entry"
)

// draft is an entry whose blocks are made as they are sent: an entry.Draft.
type draft interface {
	Blocks() int
	Write(ctx context.Context, to entry.Blocks) (size int64, err error)
}

// prepare makes an entry's first block. finish makes the others and sends them; abandon does not. One of the two must be
// called.
func (s storage) prepare(ctx context.Context, d draft) *upload {
	ctx, cancel := context.WithCancelCause(ctx)
	group, sending := errgroup.WithContext(ctx)
	u := &upload{storage: s, ctx: sending, cancel: cancel, group: group, ids: blockIDs(d.Blocks()), open: make(chan struct{})}
	u.guard(func() (err error) {
		u.size, err = d.Write(sending, u)
		return err
	})
	return u
}

// finish sends the blocks to a signed URL, several at a time and each on the schedule. A single one is the blob; more are put
// together in their order once all are there, whatever order they came in. Nothing is published by it.
func (u *upload) finish(ctx context.Context, signed string) (size int64, err error) {
	defer u.cancel(nil)
	if u.client, err = u.storage.client(signed); err != nil {
		u.abandon(err)
		return 0, err
	}
	close(u.open)
	if err := u.group.Wait(); err != nil {
		return 0, err
	}
	if len(u.ids) == 1 {
		return u.size, nil
	}
	return u.size, u.again(ctx, func(ctx context.Context) error {
		_, err := u.client.CommitBlockList(ctx, u.ids, nil)
		return err
	})
}

// abandon ends what is under way.
func (u *upload) abandon(cause error) {
	u.cancel(cause)
	_ = u.group.Wait() // whoever abandons it knows why
}

// blockIDs name the blocks of a blob. All must have the same length (Put Block, Azure Blob Storage).
func blockIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(i)))
	}
	return ids
}

// upload is one blob on its way out.
type upload struct {
	storage
	ctx    context.Context // of all blocks
	cancel context.CancelCauseFunc
	group  *errgroup.Group
	ids    []string
	size   int64

	open   chan struct{} // closed once there is a client
	client *blockblob.Client
	begun  bool // the first block is made, or being made
}

var _ entry.Blocks = (*upload)(nil)

// Room implements entry.Blocks. As long as nothing can be sent it gives no more than one buffer: others need the rest.
func (u *upload) Room(ctx context.Context) ([]byte, error) {
	if u.begun {
		if err := u.opened(); err != nil {
			return nil, err
		}
	}
	u.begun = true
	return u.buffers.get(ctx)
}

// opened waits until blocks can be sent.
func (u *upload) opened() error {
	select {
	case <-u.open:
		return nil
	case <-u.ctx.Done():
		return context.Cause(u.ctx)
	}
}

// Free implements entry.Blocks.
func (u *upload) Free(buf []byte) { u.buffers.put(buf) }

// Block implements entry.Blocks. It returns before the block is sent.
func (u *upload) Block(i int, data []byte) error {
	u.guard(func() error {
		defer u.buffers.put(data)
		if err := u.opened(); err != nil {
			return err
		}
		return u.again(u.ctx, func(ctx context.Context) error { return u.send(ctx, i, data) })
	})
	return nil
}

// send is one try to send a block.
func (u *upload) send(ctx context.Context, i int, data []byte) (err error) {
	body := streaming.NopCloser(bytes.NewReader(data))
	if len(u.ids) == 1 {
		_, err = u.client.Upload(ctx, body, nil)
		return err
	}
	_, err = u.client.StageBlock(ctx, u.ids[i], body, nil)
	return err
}

// guard does f beside the others; the first error ends them all. A panic is one: nobody else could catch it, and it would
// end the process.
func (u *upload) guard(f func() error) {
	u.group.Go(func() (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = &fault{text: clean(fmt.Sprintf("sending a block panicked: %v", v))}
			}
		}()
		return f()
	})
}
