package containerd

import "github.com/BurntSushi/toml"

// defaultSnapshotter is what both ctr and containerd's CRI plugin take where nobody says otherwise.
const defaultSnapshotter = "overlayfs"

// snapshotterOf finds the snapshotter of the kubelet's images in a containerd configuration: that of the CRI plugin, in
// the places where versions 1, 2 and 3 of the format have it. "" means that it is not set.
func snapshotterOf(config string) string {
	type criOptions struct {
		Containerd struct {
			Snapshotter string `toml:"snapshotter"`
		} `toml:"containerd"`
	}
	var c struct {
		Plugins struct {
			V1 criOptions `toml:"cri"`
			V2 criOptions `toml:"io.containerd.grpc.v1.cri"`
			V3 struct {
				Snapshotter string `toml:"snapshotter"`
			} `toml:"io.containerd.cri.v1.images"`
		} `toml:"plugins"`
	}
	if _, err := toml.Decode(config, &c); err != nil {
		return "" // nothing can be learnt from it; containerd itself would not start with it
	}
	for _, found := range []string{c.Plugins.V3.Snapshotter, c.Plugins.V2.Containerd.Snapshotter, c.Plugins.V1.Containerd.Snapshotter} {
		if found != "" {
			return found
		}
	}
	return ""
}
