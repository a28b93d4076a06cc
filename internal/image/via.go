package image

// Via is img with its blobs read through wrap's source, which is given the present one. Blobs are verified as before.
func (img Image) Via(wrap func(Source) Source) Image {
	img.source = wrap(img.source)
	return img
}
