package main

import (
	"os"
	"runtime/debug"
)

// memoryLimit is where the collector of garbage begins to work harder, in bytes. What a run has in use is less, four images
// in flight included: without the limit it may take as much again for what it no longer uses.
const memoryLimit = 72 << 20

// limitMemory sets the limit, unless whoever starts the process has set one.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
