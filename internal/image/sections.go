package image

// Sections are the offsets in img's archive at which something begins that may be wanted alone: each layer that the
// archive holds, and what follows the last. Before the first is the head.
func Sections(img Image) []int64 {
	layers := img.stored()
	offsets := make([]int64, 0, len(layers)+1)
	for _, s := range layers {
		offsets = append(offsets, s.offset)
	}
	return append(offsets, EncodedSize(img)-trailerSize)
}
