package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:])) }

// run executes one command line and returns the process's exit code: 0 ok,
// 1 failed or something was found, 2 usage or configuration.
func run(args []string) int {
	start := time.Now()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// After the first signal the second one has its usual effect again.
	context.AfterFunc(ctx, stop)
	root := newRoot(streams{in: os.Stdin, out: os.Stdout, err: os.Stderr, start: start})
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		fmt.Fprintln(os.Stderr, "tidemark:", err)
	}
	return exitCode(err)
}
