//go:build linux && !race

package recompress_test

// raceFactor is 1: the race detector is off.
const raceFactor = 1
