package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func newConfig(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show what a broker would be configured with"}
	cmd.AddCommand(newConfigPrint(io))
	return cmd
}

func newConfigPrint(io streams) *cobra.Command {
	var settings settingFlags
	cmd := &cobra.Command{
		Use:   "print",
		Short: "List each setting in force and where it came from",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, effective, warnings, err := settings.load(os.Environ())
			if err != nil {
				return err
			}
			warn(io.err, warnings)
			for _, e := range effective {
				if _, err := fmt.Fprintf(io.out, "%s=%s # %s\n", e.Name, e.Value, e.Origin); err != nil {
					return err
				}
			}
			return nil
		},
	}
	settings.register(cmd.Flags())
	return cmd
}
