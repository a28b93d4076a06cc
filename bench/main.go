//go:build linux

// Command bench measures lanes and primes of pullonce against what people use instead, on this machine: it builds images,
// starts a registry, the cache service behind a line, and container engines, and lets all play in turn. See -help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/pullonce/pullonce/bench/internal/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(app.Main(ctx, app.Process{Args: os.Args, Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr}))
}
