//go:build !race

package audit_test

// raceFactor is 1: the race detector is off.
const raceFactor = 1
