//go:build linux && race

package recompress_test

// raceFactor is how much more memory than without it code may take under the race detector, whose documentation says up to
// ten times.
const raceFactor = 10
