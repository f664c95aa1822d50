package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/compat/golden"
	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/proc"
)

// logDirs writes two log directories: one of a Kafka that was restarted and
// then stopped in order, one of a Kafka that was killed.
func logDirs(ctx context.Context, jars kafka.Jars, out string) error {
	for _, name := range []string{"clean", "killed"} {
		dir, err := os.MkdirTemp("", "golden")
		if err != nil {
			return err
		}
		err = logDir(ctx, jars, filepath.Join(dir, "kafka"), name, out)
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func logDir(ctx context.Context, jars kafka.Jars, dir, name, out string) error {
	port, err := proc.FreePorts(2)
	if err != nil {
		return err
	}
	o := kafka.Options{Dir: dir, Port: port, Set: map[string]string{
		"offsets.topic.num.partitions":         "1",
		"transaction.state.log.num.partitions": "1",
		"log.index.size.max.bytes":             "1024",
		"log.cleaner.backoff.ms":               "100",
	}}
	b, err := jars.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { b.Kill() }()
	if err := createTopics(ctx, b.Addr); err != nil {
		return err
	}
	if err := write(ctx, b.Addr, 0); err != nil {
		return err
	}
	if name == "clean" {
		// A restart gives every partition a second leader epoch.
		if err := b.Stop(30 * time.Second); err != nil {
			return err
		}
		if b, err = jars.Start(ctx, o); err != nil {
			return err
		}
		if err := write(ctx, b.Addr, 1); err != nil {
			return err
		}
	}
	if err := b.Until(30*time.Second, func() bool { return cleaned(b.LogDir) }); err != nil {
		return fmt.Errorf("wait for the log cleaner: %w", err)
	}
	all, err := readAll(ctx, b.Addr)
	if err != nil {
		return err
	}
	if name == "clean" {
		err = b.Stop(30 * time.Second)
	} else {
		b.Kill()
	}
	if err != nil {
		return err
	}
	return save(b.LogDir, out, name, all)
}

// cleaned reports whether the compacted topic went through the log cleaner.
func cleaned(logDir string) bool {
	data, err := os.ReadFile(filepath.Join(logDir, "cleaner-offset-checkpoint"))
	return err == nil && strings.Contains(string(data), "compacted 0 ")
}

// save copies the directory, but for Kafka's own topics, and writes down what
// it holds.
func save(from, out, name string, all []golden.Partition) error {
	to := filepath.Join(out, "logdir", name)
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	for i := range all {
		if err := readMeta(from, &all[i]); err != nil {
			return err
		}
	}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && strings.HasPrefix(d.Name(), "__"):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case d.Name() == ".lock" || d.Name() == "bootstrap.checkpoint":
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	})
	if err != nil {
		return err
	}
	return saveRecords(filepath.Join(out, "records_"+name+".json"), all)
}

// saveRecords writes one record a line.
func saveRecords(name string, all []golden.Partition) error {
	var b bytes.Buffer
	b.WriteString("[")
	for i, p := range all {
		records := p.Records
		p.Records = []golden.Record{}
		head, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n" + strings.TrimSuffix(string(head), "]}"))
		for j, r := range records {
			line, err := json.Marshal(r)
			if err != nil {
				return err
			}
			if j > 0 {
				b.WriteString(",")
			}
			b.WriteString("\n ")
			b.Write(line)
		}
		b.WriteString("]}")
	}
	b.WriteString("\n]\n")
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// readMeta takes topic id and leader epochs from the partition's own files.
func readMeta(logDir string, p *golden.Partition) error {
	dir := filepath.Join(logDir, fmt.Sprintf("%s-%d", p.Topic, p.Partition))
	meta, err := os.ReadFile(filepath.Join(dir, "partition.metadata"))
	if err != nil {
		return err
	}
	_, id, found := strings.Cut(string(meta), "topic_id: ")
	if !found {
		return fmt.Errorf("%s: no topic id in %q", dir, meta)
	}
	p.TopicID = strings.TrimSpace(id)
	epochs, err := os.ReadFile(filepath.Join(dir, "leader-epoch-checkpoint"))
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(epochs)), "\n")
	for _, line := range lines[min(2, len(lines)):] {
		epoch, start, _ := strings.Cut(line, " ")
		e, err1 := strconv.ParseInt(epoch, 10, 32)
		s, err2 := strconv.ParseInt(start, 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("%s: leader epochs: %w", dir, err)
		}
		p.Epochs = append(p.Epochs, golden.Epoch{Epoch: int32(e), Start: s})
	}
	return nil
}

// readAll consumes every partition from its start.
func readAll(ctx context.Context, addr string) ([]golden.Partition, error) {
	all, err := offsets(ctx, addr)
	if err != nil {
		return nil, err
	}
	for i := range all {
		p := &all[i]
		raw, err := consume(ctx, addr, p, kgo.ReadUncommitted())
		if err != nil {
			return nil, err
		}
		committed, err := consume(ctx, addr, p, kgo.ReadCommitted())
		if err != nil {
			return nil, err
		}
		visible := map[int64]bool{}
		for _, r := range committed {
			visible[r.Offset] = true
		}
		for _, r := range raw {
			p.Records = append(p.Records, recordOf(r, !visible[r.Offset] && r.Offset < p.LastStable))
		}
	}
	slices.SortFunc(all, func(a, b golden.Partition) int {
		return strings.Compare(fmt.Sprintf("%s-%03d", a.Topic, a.Partition), fmt.Sprintf("%s-%03d", b.Topic, b.Partition))
	})
	return all, nil
}

func consume(ctx context.Context, addr string, p *golden.Partition, isolation kgo.IsolationLevel) ([]*kgo.Record, error) {
	end := p.LogEnd
	if isolation == kgo.ReadCommitted() {
		end = p.LastStable
	}
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(addr), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.Topic: {p.Partition: kgo.NewOffset().At(p.LogStart)}}),
	)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var got []*kgo.Record
	// A partition that ends in compacted or control records is read to its end
	// all the same: the last batch of each topic here is kept by the cleaner.
	for at := p.LogStart; at < end; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("consume %s-%d at %d of %d: %w", p.Topic, p.Partition, at, end, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			got, at = append(got, r), r.Offset+1
		})
	}
	return got, nil
}

func recordOf(r *kgo.Record, hidden bool) golden.Record {
	codecs := []string{"none", "gzip", "snappy", "lz4", "zstd"}
	g := golden.Record{
		Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), AppendTime: r.Attrs.TimestampType() == 1,
		Codec: codecs[r.Attrs.CompressionType()], LeaderEpoch: r.LeaderEpoch,
		ProducerID: r.ProducerID, ProducerEpoch: r.ProducerEpoch,
		Transactional: r.Attrs.IsTransactional(), Control: r.Attrs.IsControl(),
		Key: r.Key, Value: r.Value,
	}
	g.Aborted = hidden && !g.Control
	for _, h := range r.Headers {
		g.Headers = append(g.Headers, golden.Header{Key: h.Key, Value: h.Value})
	}
	return g
}
