package regtest

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"sort"
)

// body is the bytes of a manifest or blob. Large ones are made when they are read, so that a blob of a gigabyte costs
// no memory.
type body struct {
	at   io.ReaderAt
	size int64
}

func bodyOf(data []byte) body { return body{bytes.NewReader(data), int64(len(data))} }

func (b body) open() *io.SectionReader { return io.NewSectionReader(b.at, 0, b.size) }

// randomBlock is small, so that a read that starts inside a block wastes little.
const randomBlock = 4 << 10

// random is an endless stream of bytes that no compressor shortens, the same for the same seed, at any offset.
type random uint64

// ReadAt implements io.ReaderAt and never fails.
func (r random) ReadAt(p []byte, off int64) (int, error) {
	var (
		block [randomBlock]byte
		key   [32]byte
		done  int
		noise rand.ChaCha8
	)
	binary.LittleEndian.PutUint64(key[:], uint64(r))
	for done < len(p) {
		at := off + int64(done)
		binary.LittleEndian.PutUint64(key[8:], uint64(at/randomBlock))
		noise.Seed(key)
		_, _ = noise.Read(block[:]) // documented never to fail
		done += copy(p[done:], block[at%randomBlock:])
	}
	return done, nil
}

// concat is its parts, one after the other.
type concat struct {
	parts []body
	ends  []int64 // ends[i] is the offset behind parts[i]
}

func join(parts ...body) body {
	c := concat{parts: parts, ends: make([]int64, len(parts))}
	var size int64
	for i, p := range parts {
		size += p.size
		c.ends[i] = size
	}
	return body{c, size}
}

// ReadAt implements io.ReaderAt.
func (c concat) ReadAt(p []byte, off int64) (int, error) {
	done := 0
	i := sort.Search(len(c.ends), func(i int) bool { return c.ends[i] > off })
	for ; i < len(c.parts) && done < len(p); i++ {
		part := c.parts[i]
		start := off + int64(done) - (c.ends[i] - part.size)
		want := min(int64(len(p)-done), part.size-start)
		n, err := part.at.ReadAt(p[done:done+int(want)], start)
		done += n
		if int64(n) < want {
			return done, err
		}
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// storedBlock is the most that one stored block of deflate holds (RFC 1951, 3.2.4).
const storedBlock = 1<<16 - 1

// storeGzip wraps raw as a gzip stream of stored blocks (RFC 1951, RFC 1952): incompressible data costs no time and any
// part of it can be made on its own. crc is the CRC-32 of raw.
func storeGzip(raw body, crc uint32) body {
	parts := []body{bodyOf([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255})}
	for off := int64(0); off < raw.size; off += storedBlock {
		n := min(storedBlock, raw.size-off)
		header := make([]byte, 5)
		if off+n == raw.size {
			header[0] = 1 // the last block
		}
		binary.LittleEndian.PutUint16(header[1:], uint16(n))
		binary.LittleEndian.PutUint16(header[3:], ^uint16(n))
		parts = append(parts, bodyOf(header), body{io.NewSectionReader(raw.at, off, n), n})
	}
	trailer := binary.LittleEndian.AppendUint32(nil, crc)
	trailer = binary.LittleEndian.AppendUint32(trailer, uint32(raw.size))
	return join(append(parts, bodyOf(trailer))...)
}

// sum reads b once into all the writers.
func sum(b body, into ...io.Writer) {
	if _, err := io.Copy(io.MultiWriter(into...), b.open()); err != nil {
		panic(err) // memory and arithmetic don't fail
	}
}
