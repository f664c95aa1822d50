package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate go test -run TestReferenceIsCurrent -update .

// writeReference prints the whole command tree as the Markdown page
// docs/CLI.md.
func writeReference(w io.Writer, root *cobra.Command) {
	fmt.Fprint(w, "# Command line\n\nGenerated from the commands themselves by `go generate ./cmd/tidemark`.\n\n"+
		"Results go to standard output, events and hints to standard error. Exit codes: 0 fine, 1 failed or something was\n"+
		"found, 2 usage or configuration. The broker's ready line is\n\n"+
		"    tidemark ready listener=HOST:PORT node=N cluster=ID data=DIR ms=N\n")
	writeCommand(w, root)
}

func writeCommand(w io.Writer, cmd *cobra.Command) {
	if !cmd.HasSubCommands() || cmd.Runnable() {
		fmt.Fprintf(w, "\n## %s\n\n%s.\n", cmd.CommandPath(), strings.TrimSuffix(cmd.Short, "."))
		if cmd.Long != "" {
			fmt.Fprintf(w, "\n%s\n", cmd.Long)
		}
		fmt.Fprintf(w, "\n    %s\n", strings.TrimSpace(cmd.UseLine()))
		writeFlags(w, cmd)
	}
	subs := cmd.Commands()
	slices.SortFunc(subs, func(a, b *cobra.Command) int { return strings.Compare(a.Name(), b.Name()) })
	for _, sub := range subs {
		if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "completion" {
			writeCommand(w, sub)
		}
	}
}

func writeFlags(w io.Writer, cmd *cobra.Command) {
	first := true
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if first {
			fmt.Fprint(w, "\n| flag | default | meaning |\n|---|---|---|\n")
			first = false
		}
		def := f.DefValue
		if def == "" || def == "[]" {
			def = "–"
		}
		fmt.Fprintf(w, "| `--%s` | %s | %s |\n", f.Name, def, strings.ReplaceAll(f.Usage, "|", `\|`))
	})
}
