package entry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// An entry of ours begins with an index in a skippable frame (RFC 8878, 3.1.2), which decompressors pass over:
//
//	magic number     0x184D2A5E
//	frame size       of what follows
//	signature        "pullonce"
//	version          1
//	number of frames
//	per frame        compressed size, size
//	checksum         CRC-32C of signature to last frame
//
// All numbers have 32 bits, the lowest byte first. It stands in front, because then one read gives the index and what
// comes first, where one at the end costs a read to learn where the end is.
const (
	skippableMagic = 0x184D2A5E
	signature      = "pullonce"
	indexVersion   = 1

	skippableHead = 8 // magic number and frame size
	indexHead     = skippableHead + len(signature) + 8
	indexRow      = 8
	indexTail     = 4

	// chunk is the most that a frame holds, in bytes: what is lost when a range breaks, and the unit of reading ahead.
	chunk = 2 << 20
	// maxFrame is the most that a compressed frame may have: what does not compress is stored, with a few bytes more.
	maxFrame = chunk + chunk/16
	// maxIndex bounds the index; 64 GiB take a quarter of it.
	maxIndex = 1 << 20
)

// frame is one frame: where it is among the entry's bytes, and what it holds of the uncompressed tar.
type frame struct {
	at   int64 // of its first byte in the entry
	size int   // compressed
	from int64 // of its first byte in the tar
	raw  int   // uncompressed
}

// end is the offset in the tar behind the frame.
func (f frame) end() int64 { return f.from + int64(f.raw) }

// indexSize is the size of an index over so many frames, its frame's head included.
func indexSize(frames int) int64 { return int64(indexHead + indexRow*frames + indexTail) }

func encodeIndex(frames []frame) []byte {
	size := indexSize(len(frames))
	b := make([]byte, 0, size)
	b = binary.LittleEndian.AppendUint32(b, skippableMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(size)-skippableHead)
	b = append(b, signature...)
	b = binary.LittleEndian.AppendUint32(b, indexVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(frames)))
	for _, f := range frames {
		b = binary.LittleEndian.AppendUint32(b, uint32(f.size))
		b = binary.LittleEndian.AppendUint32(b, uint32(f.raw))
	}
	return binary.LittleEndian.AppendUint32(b, checksum(b[skippableHead:]))
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// hasIndex says whether the entry that begins with prefix has an index of ours, and how many bytes that takes.
func hasIndex(prefix []byte) (size int64, ok bool) {
	if len(prefix) < indexHead || binary.LittleEndian.Uint32(prefix) != skippableMagic ||
		!bytes.HasPrefix(prefix[skippableHead:], []byte(signature)) {
		return 0, false
	}
	return int64(binary.LittleEndian.Uint32(prefix[4:])) + skippableHead, true
}

// parseIndex reads the whole of an index and holds it to the entry's size.
func parseIndex(b []byte, size int64) ([]frame, error) {
	body, sum := b[:len(b)-indexTail], binary.LittleEndian.Uint32(b[len(b)-indexTail:])
	if got := checksum(body[skippableHead:]); got != sum {
		return nil, fmt.Errorf("its checksum is %08x, not %08x", got, sum)
	}
	if v := binary.LittleEndian.Uint32(b[skippableHead+len(signature):]); v != indexVersion {
		return nil, fmt.Errorf("version %d, only %d is supported", v, indexVersion)
	}
	rows := body[indexHead:]
	if n := int64(binary.LittleEndian.Uint32(b[indexHead-4:])); n*indexRow != int64(len(rows)) || n == 0 {
		return nil, errors.New("it is shorter or longer than it says")
	}
	frames := make([]frame, 0, len(rows)/indexRow)
	next := frame{at: int64(len(b))}
	for ; len(rows) > 0; rows = rows[indexRow:] {
		compressed, raw := binary.LittleEndian.Uint32(rows), binary.LittleEndian.Uint32(rows[4:])
		if compressed == 0 || compressed > maxFrame || raw == 0 || raw > chunk {
			return nil, fmt.Errorf("a frame of %d bytes in %d is out of bounds", raw, compressed)
		}
		next.size, next.raw = int(compressed), int(raw)
		frames = append(frames, next)
		next = frame{at: next.at + int64(next.size), from: next.end()}
	}
	if next.at != size {
		return nil, fmt.Errorf("it is over %d bytes, the entry has %d", next.at, size)
	}
	return frames, nil
}
