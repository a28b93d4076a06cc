package sample

import (
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
)

// file is a file of the machine.
type file struct {
	path string
	size int64
	mode fs.FileMode
}

// roots are the folders below / that files are taken from: what packages bring, and nothing that a user or a service wrote.
func roots() []string { return []string{"usr/bin", "usr/lib", "usr/libexec", "usr/sbin", "usr/share"} }

// without are the folders below them that slim images leave out: what is in them is for people.
func without() []string {
	return []string{"usr/share/doc", "usr/share/info", "usr/share/locale", "usr/share/man"}
}

// largest is the largest file that goes into an image: chance shall not make a layer of one file, whose content then decides
// how the image compresses.
const largest = 4 << 20

// foreign are the kinds of file that a machine of developers has many of, and an image few: static libraries, which compress
// much better than the rest, and archives of Java, which do not at all.
func foreign() []string { return []string{".a", ".jar", ".jmod"} }

// pool lists the files of the machine, in order of their paths, without the byte code that Python made on it.
func pool(machine fs.FS) ([]file, error) {
	var files []file
	for _, root := range roots() {
		err := fs.WalkDir(machine, root, func(name string, d fs.DirEntry, err error) error {
			if err == nil && slices.Contains(without(), name) {
				return fs.SkipDir
			}
			if err != nil || !d.Type().IsRegular() || strings.Contains(name, "__pycache__") || slices.Contains(foreign(), path.Ext(name)) {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Size() > 0 && info.Size() <= largest {
				files = append(files, file{name, info.Size(), info.Mode().Perm()})
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("listing the machine's files: %w", err)
		}
	}
	return files, nil
}

// choose takes files for a layer: about as many as wanted, of about that size together. While those taken are smaller than
// the average that is wanted, a larger one follows, and the other way round. The seed decides the order: of small files that
// of their folders, so that neighbours stay neighbours as in a real image; of large ones that of each, so that no folder
// makes a layer.
func choose(files []file, l layer) ([]file, error) {
	average := l.bytes / int64(l.files)
	var small, large []file
	for _, f := range shuffled(files, l.seed) {
		if f.size > l.bytes/4 {
			continue // the layer would be of this file alone, or much larger than it is to be
		}
		if f.size < average {
			small = append(small, f)
		} else {
			large = append(large, f)
		}
	}
	generator := rand.New(rand.NewPCG(l.seed, 1))
	generator.Shuffle(len(large), func(i, j int) { large[i], large[j] = large[j], large[i] })
	var chosen []file
	var total int64
	for total < l.bytes {
		from := &small
		if total <= average*int64(len(chosen)) || len(small) == 0 {
			from = &large
		}
		if len(*from) == 0 {
			return nil, fmt.Errorf("the machine has too few files below /usr for a layer of %d bytes in %d files: it has %d", l.bytes, l.files, len(files))
		}
		chosen = append(chosen, (*from)[0])
		total += (*from)[0].size
		*from = (*from)[1:]
	}
	slices.SortFunc(chosen, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return chosen, nil
}

// shuffled are the files with their folders in another order.
func shuffled(files []file, seed uint64) []file {
	var folders [][]file
	start := 0
	for i := range files {
		if i+1 == len(files) || folderOf(files[i+1]) != folderOf(files[i]) {
			folders = append(folders, files[start:i+1])
			start = i + 1
		}
	}
	generator := rand.New(rand.NewPCG(seed, 0))
	generator.Shuffle(len(folders), func(i, j int) { folders[i], folders[j] = folders[j], folders[i] })
	return slices.Concat(folders...)
}

func folderOf(f file) string { return f.path[:strings.LastIndexByte(f.path, '/')+1] }

func seedOf(name string, i int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", name, i)
	return h.Sum64()
}
