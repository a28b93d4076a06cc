//go:build race

package audit_test

// raceFactor is how many times longer than without it code may take under the race detector, whose documentation says up
// to twenty.
const raceFactor = 20
