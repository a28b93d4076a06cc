package image

// Unnamed is img with an archive that gives the image no name, for targets that name what they hold after it has been
// proven to be whole.
func (img Image) Unnamed() (Image, error) {
	index, docker := img.index(), img.dockerImage()
	index.Manifests[0].Annotations = nil
	docker.RepoTags = nil
	if err := img.writeHead(index, docker); err != nil {
		return Image{}, err
	}
	return img, nil
}
