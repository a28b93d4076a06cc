//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "error: the benchmark starts container engines\nhint: run it on Debian 12, as root")
	os.Exit(2)
}
