// Command pullonce pulls each pinned container image once per workflow run and loads it everywhere.
package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	_ "golang.org/x/crypto/x509roots/fallback" // the static binary runs where there are no CA roots

	"github.com/pullonce/pullonce/internal/cli"
)

// grace is how long an interrupted run may take to end by itself. Everything is published whole or not at all, so that
// nothing is lost by leaving.
const grace = 1800 * time.Millisecond

func main() {
	limitMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() {
		time.Sleep(grace)
		os.Exit(int(cli.ExitInternal))
	})
	os.Exit(int(cli.Main(ctx, cli.Process{
		Args: os.Args[1:], LookupEnv: os.LookupEnv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Signals: subscribe,
	})))
}

func subscribe(signals ...os.Signal) (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 8)
	signal.Notify(c, slices.DeleteFunc(signals, signal.Ignored)...) // as nohup wants it
	return c, func() { signal.Stop(c) }
}
