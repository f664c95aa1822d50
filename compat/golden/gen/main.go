package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark/tidemark/compat/kafka"
)

func main() {
	out := flag.String("out", "compat/golden", "directory to write to")
	only := flag.String("only", "", "lists or logs; empty is both")
	flag.Parse()
	if err := run(context.Background(), *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, only string) error {
	jars, err := kafka.Resolve(ctx)
	if err != nil {
		return err
	}
	if only != "logs" {
		if err := lists(ctx, jars, out); err != nil {
			return fmt.Errorf("lists: %w", err)
		}
		if err := described(ctx, jars, out); err != nil {
			return fmt.Errorf("described settings: %w", err)
		}
	}
	if only != "lists" {
		if err := logDirs(ctx, jars, out); err != nil {
			return fmt.Errorf("log directories: %w", err)
		}
	}
	return nil
}

// writeList writes one element a line, so that a change is a readable diff.
func writeList[T any](dir, name string, list []T) error {
	b := []byte("[\n")
	for i, item := range list {
		line, err := json.Marshal(item)
		if err != nil {
			return err
		}
		b = append(append(b, ' '), line...)
		if i < len(list)-1 {
			b = append(b, ',')
		}
		b = append(b, '\n')
	}
	return os.WriteFile(filepath.Join(dir, name), append(b, "]\n"...), 0o644)
}
