// Package store owns the contract of the places where entries live, and the generations of a key. Its back ends are
// the packages below it. It does not know targets, registries or how pulls are scheduled.
package store

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/pullonce/pullonce/internal/image"
)

// ErrNotFound says that a store has no entry under a key. Every other error of Stat or Open is not a miss.
var ErrNotFound = errors.New("not found")

// ErrCorrupt says that an entry is there and can't be used: what it holds is not what it must be. Whoever may write
// saves the next generation.
var ErrCorrupt = errors.New("corrupt entry")

// Entry is what a store tells of an entry without moving its bytes.
type Entry struct {
	// Key is the key asked for, without a generation.
	Key string
	// Generation is the newest one there: 0 for the key itself, n for "<key>.n".
	Generation int
	// Size is what the entry takes in the store, in bytes.
	Size int64
	// Saved is when the entry was saved; zero where the store can't tell.
	Saved time.Time
}

// Store keeps images by key. Safe for concurrent use.
type Store interface {
	// Stat says whether key is there, its size and newest generation, without moving its bytes. A miss is ErrNotFound. An
	// entry that is seen to be of no use all the same is ErrCorrupt, and the Entry tells its generation.
	Stat(ctx context.Context, key string) (Entry, error)
	// Open reads the small parts of the entry's newest generation (as a rule at most 256 KiB); layers are read when
	// asked for, and stay readable until ctx ends or the store is closed. A miss is ErrNotFound, an entry that can't be
	// used ErrCorrupt.
	Open(ctx context.Context, key string) (image.Image, error)
	// Save publishes img whole or not at all, under a key or a generation of one (see Generation). A key that is
	// already there is success and stays as it is.
	Save(ctx context.Context, key string, img image.Image) error
}

// Generation is the key under which generation n of key is saved: the key itself for 0, else "<key>.n".
func Generation(key string, n int) string {
	if n == 0 {
		return key
	}
	return key + "." + strconv.Itoa(n)
}

// maxGeneration bounds what counts as a generation: far more than any key has, and far from where numbers end.
const maxGeneration = 1 << 20

// ParseGeneration takes a saved key apart. A key ends in 16 hex digits, so that ".n" behind it can only be a
// generation; whatever else is behind a key makes another key.
func ParseGeneration(saved string) (key string, n int) {
	i := strings.LastIndexByte(saved, '.')
	if i < 1 {
		return saved, 0
	}
	n, err := strconv.Atoi(saved[i+1:])
	if err != nil || n < 1 || n > maxGeneration || Generation(saved[:i], n) != saved {
		return saved, 0
	}
	return saved[:i], n
}
