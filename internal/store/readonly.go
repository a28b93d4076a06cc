package store

import "errors"

// ErrReadOnly says that a store does not let this run save. What is there can be read.
var ErrReadOnly = errors.New("read-only")
