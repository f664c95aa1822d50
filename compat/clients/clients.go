package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/proc"
)

// Client is a Kafka client with a driver.
type Client struct {
	Name string
	// Language decides how it is installed and started.
	Language Language
	// Driver names the driver's program or, for Go, its argument; Rust has one.
	Driver string
	// Plain clients set neither timestamps nor headers of single records; rows
	// leave them out.
	Plain bool
	// Limits are the rows that this client can't do, with the reason.
	Limits map[string]string
}

// Language is what a driver is written in.
type Language string

// The languages.
const (
	Python Language = "Python"
	Node   Language = "JavaScript"
	Golang Language = "Go"
	Java   Language = "Java"
	Rust   Language = "Rust"
)

// source is the directory of this package's files.
func source() (string, error) {
	_, self, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("clients: the source directory is unknown (built with -trimpath?)")
	}
	return filepath.Dir(self), nil
}

// argv returns the command that starts the driver, which is installed if need
// be.
func (c Client) argv(ctx context.Context, dir string) ([]string, error) {
	cache := filepath.Join(filepath.Dir(dir), ".cache", "clients")
	switch c.Language {
	case Python:
		venv, err := installed(ctx, cache, dir, "python", "requirements.txt", installPython)
		return []string{filepath.Join(venv, "bin", "python"), filepath.Join(dir, "python", c.Driver)}, err
	case Node:
		modules, err := installed(ctx, cache, dir, "node", "package-lock.json", installNode)
		// Modules are looked for beside the program, so it runs from there.
		return []string{"node", filepath.Join(modules, c.Driver)}, err
	case Golang:
		out, err := installed(ctx, cache, dir, "golang", "go.sum", installGo)
		return []string{filepath.Join(out, "driver"), c.Driver}, err
	case Rust:
		out, err := installed(ctx, cache, dir, "rust", "Cargo.lock", installRust)
		return []string{rustProgram(out)}, err
	case Java:
		jars, err := kafka.Resolve(ctx)
		return jars.Source(filepath.Join(dir, "java", c.Driver)), err
	}
	return nil, fmt.Errorf("no such language: %s", c.Language)
}

// Install makes the client's driver ready, which Start does as well.
func (c Client) Install(ctx context.Context) error {
	dir, err := source()
	if err == nil {
		_, err = c.argv(ctx, dir)
	}
	return err
}

// install makes what dir's package files name, in out.
type install func(ctx context.Context, dir, out string) error

// installed returns the directory with what the package file of a language
// names. It is made when there is none or the drivers have changed; several test
// programs may ask at once.
func installed(ctx context.Context, cache, dir, language, pinned string, do install) (string, error) {
	from, out := filepath.Join(dir, language), filepath.Join(cache, language)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(out+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	want, err := state(from, pinned)
	if err != nil {
		return "", err
	}
	mark := filepath.Join(out, "installed")
	if have, err := os.ReadFile(mark); err == nil && string(have) == want {
		return out, nil
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	if err := do(ctx, from, out); err != nil {
		return "", err
	}
	return out, os.WriteFile(mark, []byte(want), 0o644)
}

func installPython(ctx context.Context, dir, out string) error {
	if err := must(ctx, "", "python3", "-m", "venv", out); err != nil {
		return fmt.Errorf("%w\n(on Debian: apt-get install python3-venv)", err)
	}
	return must(ctx, "", filepath.Join(out, "bin", "pip"), "install", "-q", "--disable-pip-version-check", "-r", filepath.Join(dir, "requirements.txt"))
}

func installNode(ctx context.Context, dir, out string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.js*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(out, filepath.Base(name)), b, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return must(ctx, out, "npm", "ci", "--no-audit", "--no-fund", "--silent")
}

func installGo(ctx context.Context, dir, out string) error {
	return must(ctx, dir, "go", "build", "-o", filepath.Join(out, "driver"), ".")
}

// installRust builds librdkafka too, which takes a minute and a half of a CPU, and
// keeps it for the next time that only the driver has changed.
func installRust(ctx context.Context, dir, out string) error {
	return must(ctx, dir, "cargo", "build", "--quiet", "--locked", "--target-dir", filepath.Join(out, "target"))
}

func rustProgram(out string) string { return filepath.Join(out, "target", "debug", "driver") }

// must runs a program that has to succeed, in dir.
func must(ctx context.Context, dir string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", argv, err, proc.Tail(string(out), 20))
	}
	return nil
}
