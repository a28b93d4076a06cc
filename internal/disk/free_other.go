//go:build !linux && !darwin

package disk

// Free can't be told.
func Free(string) (bytes int64, ok bool) { return 0, false }
