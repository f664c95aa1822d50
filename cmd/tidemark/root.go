package main

import (
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// streams are the three standard streams, passed in so that a test can read
// what a command says. Results go to out, everything for a person to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
	start    time.Time // of the process, for the ready line
}

// usageError marks a wrong command line or configuration: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// errFound ends a command that did its work and found something wrong; what
// it found is printed already, so it has no text of its own.
var errFound = errors.New("")

func exitCode(err error) int {
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return 2
	default:
		return 1
	}
}

// newRoot builds the command tree. Without a subcommand it serves.
func newRoot(io streams) *cobra.Command {
	serve := newServe(io)
	root := &cobra.Command{
		Use:   "tidemark",
		Short: "A Kafka-compatible broker in one binary",
		Long: "Tidemark speaks the Kafka protocol to unmodified Kafka clients and stores data in\n" +
			"Kafka's own segment format. Without a subcommand it serves: a whole cluster of\n" +
			"one on localhost:9092, with its data in ./tidemark-data.",
		Args:          noArgs,
		RunE:          serve.RunE,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.Flags().AddFlagSet(serve.Flags())
	root.SetOut(io.out)
	root.SetErr(io.err)
	root.SetIn(io.in)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(serve, newConfig(io), newVersion(io), newDev(io), newTopic(io), newQuorum(io), newProduce(io), newConsume(io), newLog(io), newPerf(io), newSim(io))
	return root
}

// noArgs and exactArgs are cobra's checks with the exit code of a usage error.
func noArgs(cmd *cobra.Command, args []string) error {
	return asUsage(cobra.NoArgs(cmd, args))
}

func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return asUsage(cobra.ExactArgs(n)(cmd, args)) }
}

func minArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return asUsage(cobra.MinimumNArgs(n)(cmd, args)) }
}

func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}
