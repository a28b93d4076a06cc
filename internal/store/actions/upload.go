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

// upload makes an entry's blocks and sends them, several at a time and each on the schedule. A single one is the blob;
// more are put together in their order once all are there, whatever order they came in. Nothing is published by it.
func (s storage) upload(ctx context.Context, signed string, d draft) (size int64, err error) {
	client, err := s.client(signed)
	if err != nil {
		return 0, err
	}
	group, sending := errgroup.WithContext(ctx)
	up := &upload{storage: s, ctx: sending, group: group, client: client, ids: blockIDs(d.Blocks())}
	up.guard(func() (err error) {
		size, err = d.Write(sending, up)
		return err
	})
	if err := group.Wait(); err != nil {
		return 0, err
	}
	if len(up.ids) == 1 {
		return size, nil
	}
	return size, s.again(ctx, func(ctx context.Context) error {
		_, err := client.CommitBlockList(ctx, up.ids, nil)
		return err
	})
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
	group  *errgroup.Group
	client *blockblob.Client
	ids    []string
}

var _ entry.Blocks = (*upload)(nil)

// Room implements entry.Blocks.
func (u *upload) Room(ctx context.Context) ([]byte, error) { return u.buffers.get(ctx) }

// Free implements entry.Blocks.
func (u *upload) Free(buf []byte) { u.buffers.put(buf) }

// Block implements entry.Blocks. It returns before the block is sent.
func (u *upload) Block(i int, data []byte) error {
	u.guard(func() error {
		defer u.buffers.put(data)
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
