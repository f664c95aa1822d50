package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/broker"
)

func newVersion(io streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(io.out, "tidemark %s %s %s/%s\n", broker.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
