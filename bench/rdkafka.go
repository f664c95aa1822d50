package bench

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// BuildRDLoad compiles the librdkafka load program of bench/rdload into dir. It
// needs a C compiler and librdkafka's headers (Debian: librdkafka-dev). source
// is the path of rdload.c.
func BuildRDLoad(ctx context.Context, source, dir string) (string, error) {
	out := filepath.Join(dir, "rdload")
	cmd := exec.CommandContext(ctx, "cc", "-O2", "-o", out, source, "-lrdkafka")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build rdload (is librdkafka-dev installed?): %w\n%s", err, said.String())
	}
	return out, nil
}

// RDKafkaCells are the rows that go through librdkafka, by the program that
// BuildRDLoad made.
func RDKafkaCells(rdload string) []Cell {
	return []Cell{
		{"T6-rdkafka-produce-100B", "librdkafka, idempotent, acks=all", rdProduceCell(rdload, 100, 1_000_000)},
		{"T6-rdkafka-produce-1KiB", "librdkafka, idempotent, acks=all", rdProduceCell(rdload, 1024, 300_000)},
		{"T6-rdkafka-consume-100B", "librdkafka", rdConsumeCell(rdload, 100, 1_000_000)},
		{"T6-rdkafka-consume-1KiB", "librdkafka", rdConsumeCell(rdload, 1024, 300_000)},
	}
}

func rdProduceCell(rdload string, recordBytes, records int) func(*env) error {
	return func(e *env) error {
		topic, err := e.topic(1)
		if err != nil {
			return err
		}
		n := e.scaled(records)
		e.result.Requests, e.result.Records, e.result.Bytes = int64(n), int64(n), int64(n*recordBytes)
		return e.measure(func() error { return runRDLoad(rdload, "produce", e.target.Addr, topic, n, recordBytes) })
	}
}

func rdConsumeCell(rdload string, recordBytes, records int) func(*env) error {
	return func(e *env) error {
		topic, err := e.topic(1)
		if err != nil {
			return err
		}
		n := e.scaled(records)
		if err := kgoProduce(e.target.Addr, topic, recordBytes, n); err != nil {
			return err
		}
		e.result.Requests, e.result.Records, e.result.Bytes = int64(n), int64(n), int64(n*recordBytes)
		return e.measure(func() error { return runRDLoad(rdload, "consume", e.target.Addr, topic, n, recordBytes) })
	}
}

func runRDLoad(rdload, verb, addr, topic string, records, recordBytes int) error {
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, rdload, verb, addr, topic, strconv.Itoa(records), strconv.Itoa(recordBytes))
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("rdload %s: %w\n%s", verb, err, said.String())
	}
	return nil
}
