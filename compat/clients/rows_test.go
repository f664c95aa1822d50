//go:build compat

package clients_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark/tidemark/compat/clients"
	"github.com/tidemark/tidemark/protocol/record"
)

// row is one behaviour that every client must see.
type row struct {
	name string
	// what it says, for the table.
	what string
	run  func(b *bench)
	// core rows run with every client each time.
	core bool
}

func rows() []row {
	all := []row{
		{"codec-none", "produce and consume uncompressed", codec("none", 0), true},
		{"codec-gzip", "gzip, stored as gzip", codec("gzip", 1), false},
		{"codec-snappy", "snappy, stored as snappy", codec("snappy", 2), false},
		{"codec-lz4", "lz4, stored as lz4", codec("lz4", 3), true},
		{"codec-zstd", "zstd, stored as zstd", codec("zstd", 4), true},
		{"idempotent", "an idempotent producer's batches carry its id", idempotent, true},
		{"nulls", "null keys and values are not empty ones", nulls, true},
		{"headers", "headers in order, doubled, empty and null", headers, false},
		{"large", "a message just below message.max.bytes", large, false},
		{"mebibyte", "a message of one mebibyte where the topic allows it", mebibyte, false},
		{"too-large", "a message over message.max.bytes is refused, and only that", tooLarge, false},
		{"positions", "start, end, an offset, a timestamp", positions, true},
		{"inside-batch", "consuming from the middle of a batch", insideBatch, true},
		{"log-append-time", "LogAppendTime replaces the producer's timestamps", logAppendTime, false},
		{"out-of-range", "an offset out of range resets to the start", outOfRange, false},
		{"topics", "create, grow, list and delete topics; the refusals", topics, true},
		{"configs", "topic settings: defaults, changes, refusals", configs, false},
		{"compacted-null-key", "a record without a key is refused by a compacted topic, and only that", compactedNullKey, false},
		{"emptied-batches", "a compacted topic that begins with emptied batches and ends with a tombstone is read to its end", emptiedBatches, false},
		{"unknown-topic", "a topic that is not there is said to be unknown", unknownTopic, false},
		{"auto-create", "the first produce creates the topic", autoCreate, true},
		{"auto-create-race", "two producers create one topic at the same time", autoCreateRace, false},
	}
	return append(all, groupRows()...)
}

// some makes n records for partition 0 with timestamps one second apart.
func some(n int) []clients.Record {
	base := time.Now().Add(-time.Hour).Truncate(time.Second).UnixMilli()
	rs := make([]clients.Record, n)
	for i := range rs {
		rs[i] = clients.Record{
			Key: fmt.Appendf(nil, "key %d", i), Value: bytes.Repeat(fmt.Appendf(nil, "value %d ", i), 10), Time: base + int64(i)*1000,
			Headers: []clients.Header{{Key: "n", Value: fmt.Append(nil, i)}},
		}
	}
	return rs
}

// same compares what was consumed with what was produced.
func same(b *bench, got, want []clients.Record) {
	b.Helper()
	if len(got) != len(want) {
		b.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Partition != w.Partition || g.Offset != w.Offset || (w.Time != 0 && g.Time != w.Time) || !equal(g.Key, w.Key) || !equal(g.Value, w.Value) {
			b.Fatalf("record %d is %s, want %s", i, brief(g), brief(w))
		}
		if len(g.Headers) != len(w.Headers) {
			b.Fatalf("record %d has %d headers, want %d", i, len(g.Headers), len(w.Headers))
		}
		for k, h := range w.Headers {
			if g.Headers[k].Key != h.Key || !equal(g.Headers[k].Value, h.Value) {
				b.Fatalf("record %d, header %d is %q, want %q", i, k, g.Headers[k], h)
			}
		}
	}
}

// equal tells null from empty.
func equal(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func brief(r clients.Record) string {
	return fmt.Sprintf("%d@%d t=%d key=%.40q value=%.40q (%d bytes) headers=%q", r.Partition, r.Offset, r.Time, r.Key, r.Value, len(r.Value), r.Headers)
}

// consumed reads the row's topic.
func (b *bench) consumed(from string, count int) []clients.Record {
	b.Helper()
	return b.do(clients.Request{Op: "consume", Topic: b.topic, From: from, Count: count}).Records
}

// batches reads the headers of what the broker has stored.
func (b *bench) batches() []record.Batch {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(b.node.PartitionDir(b.topic, 0), fmt.Sprintf("%020d.log", 0)))
	if err != nil {
		b.Fatal(err)
	}
	var out []record.Batch
	for len(data) >= record.HeaderSize {
		size := 12 + int(binary.BigEndian.Uint32(data[8:]))
		if size > len(data) || size < record.HeaderSize {
			break
		}
		out, data = append(out, record.Batch(data[:size])), data[size:]
	}
	if len(out) == 0 {
		b.Fatal("nothing is stored")
	}
	return out
}

func codec(name string, bits int) func(b *bench) {
	return func(b *bench) {
		b.create(1)
		want := b.produce(clients.Request{Codec: name, Records: some(200)})
		same(b, b.consumed("earliest", 200), want)
		for _, batch := range b.batches() {
			if got := int(binary.BigEndian.Uint16(batch[21:])) & 7; got != bits {
				b.Fatalf("a batch of codec %d is stored, want %d", got, bits)
			}
		}
	}
}

func idempotent(b *bench) {
	b.create(1)
	want := b.produce(clients.Request{Idempotent: true, Records: some(50)})
	same(b, b.consumed("earliest", 50), want)
	for _, batch := range b.batches() {
		if !batch.HasProducerID() {
			b.Fatal("a batch without a producer id is stored")
		}
	}
}

func nulls(b *bench) {
	b.create(1)
	want := b.produce(clients.Request{Records: []clients.Record{
		{Key: nil, Value: []byte("only a value")}, {Key: []byte("a tombstone"), Value: nil}, {Key: []byte{}, Value: []byte{}}, {Key: nil, Value: []byte{}},
	}})
	same(b, b.consumed("earliest", len(want)), want)
}

func headers(b *bench) {
	b.create(1)
	want := b.produce(clients.Request{Records: []clients.Record{
		{Value: []byte("x"), Headers: []clients.Header{{Key: "b", Value: []byte{0, 255, 128}}, {Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "empty", Value: []byte{}}}},
		{Value: []byte("y")},
	}})
	same(b, b.consumed("earliest", len(want)), want)
}

func large(b *bench) {
	b.create(1)
	want := b.produce(clients.Request{Records: []clients.Record{{Value: noise(1_000_000)}}})
	same(b, b.consumed("earliest", 1), want)
}

// noise is bytes that nothing compresses.
func noise(n int) []byte {
	b := make([]byte, n)
	seed := uint32(1)
	for i := range b {
		seed = seed*1664525 + 1013904223
		b[i] = byte(seed >> 24)
	}
	return b
}

// mebibyte's batches are larger than what clients ask for of a partition by
// default, and come nevertheless.
func mebibyte(b *bench) {
	b.create(1, "max.message.bytes=2097152")
	var want []clients.Record
	for range 2 { // each in a batch of its own
		want = append(want, b.produce(clients.Request{Records: []clients.Record{{Value: noise(1 << 20)}}})...)
	}
	same(b, b.consumed("earliest", 2), want)
}

func tooLarge(b *bench) {
	b.create(1, "max.message.bytes=10000")
	a := b.try(clients.Request{Op: "produce", Topic: b.topic, Records: []clients.Record{{Value: make([]byte, 20_000)}}})
	words := strings.ToLower(a.Error)
	for _, ack := range a.Acks {
		words += strings.ToLower(ack.Error)
	}
	words = strings.NewReplacer("_", "", " ", "").Replace(words)
	if !strings.Contains(words, "toolarge") && !strings.Contains(words, "msgsize") && !strings.Contains(words, "largerthan") && !strings.Contains(words, "10") {
		b.Fatalf("a batch of 20,000 bytes: %+v", a)
	}
	want := b.produce(clients.Request{Records: []clients.Record{{Value: []byte("small")}}})
	same(b, b.consumed("earliest", 1), want)
}

func positions(b *bench) {
	b.create(1)
	want := b.produce(clients.Request{Records: some(100)})
	same(b, b.consumed("earliest", 100), want)
	same(b, b.consumed("57", 43), want[57:])
	at := want[30].Time
	same(b, b.consumed(fmt.Sprintf("ts:%d", at-500), 70), want[30:])
	o := b.do(clients.Request{Op: "offsets", Topic: b.topic, Time: at})
	if o.Start != 0 || o.End != 100 || o.At != 30 {
		b.Fatalf("start %d, end %d, at the time of record 30: %d", o.Start, o.End, o.At)
	}
	if got := b.do(clients.Request{Op: "consume", Topic: b.topic, From: "latest", Count: 1, Timeout: 1000}).Records; len(got) != 0 {
		b.Fatalf("%d records behind the end", len(got))
	}
}

func insideBatch(b *bench) {
	b.create(1)
	want := b.produce(clients.Request{Codec: "gzip", Records: some(100)})
	same(b, b.consumed("99", 1), want[99:])
	for _, from := range []int{1, 50, 98} {
		same(b, b.consumed(strconv.Itoa(from), 2), want[from:from+2])
	}
}

func logAppendTime(b *bench) {
	b.create(1, "message.timestamp.type=LogAppendTime")
	before := time.Now().UnixMilli()
	want := b.produce(clients.Request{Codec: "gzip", Records: some(10)})
	for i := range want {
		want[i].Time = 0
	}
	got := b.consumed("earliest", 10)
	same(b, got, want)
	for i, r := range got {
		if r.Time < before || r.Time > time.Now().UnixMilli() {
			b.Fatalf("record %d: time %d, it was produced after %d", i, r.Time, before)
		}
	}
}

func outOfRange(b *bench) {
	b.create(1)
	want := b.produce(clients.Request{Records: some(10)})
	got := b.do(clients.Request{Op: "consume", Topic: b.topic, From: "1000", Reset: "earliest", Count: 10}).Records
	same(b, got, want)
}

func topics(b *bench) {
	b.create(2)
	refused(b, clients.Request{Op: "create", Topic: b.topic, Partitions: 1, Replication: 1}, "exists")
	refused(b, clients.Request{Op: "create", Topic: b.topic + "-many", Partitions: 1, Replication: 7}, "replication")
	refused(b, clients.Request{Op: "create", Topic: "no such/name", Partitions: 1, Replication: 1}, "topic", "invalid")
	b.do(clients.Request{Op: "grow", Topic: b.topic, Partitions: 5})
	b.eventually("five partitions", func() bool { return b.do(clients.Request{Op: "topics"}).Topics[b.topic] == 5 })
	refused(b, clients.Request{Op: "grow", Topic: b.topic, Partitions: 3}, "partitions")
	b.do(clients.Request{Op: "delete", Topic: b.topic})
	b.eventually("the topic is gone", func() bool { _, there := b.do(clients.Request{Op: "topics"}).Topics[b.topic]; return !there })
	refused(b, clients.Request{Op: "delete", Topic: b.topic}, "unknown", "nottopic", "doesnothost", "doesnotexist")
}

// refused checks that the client reports a refusal in one of the words, which
// differ from client to client.
func refused(b *bench, r clients.Request, words ...string) {
	b.Helper()
	a := b.try(r)
	got := strings.NewReplacer("_", "", " ", "", "-", "").Replace(strings.ToLower(a.Error))
	for _, w := range words {
		if strings.Contains(got, w) {
			return
		}
	}
	b.Errorf("%s %s: %q, want a refusal with one of %q", r.Op, r.Topic, a.Error, words)
}

func configs(b *bench) {
	b.create(1, "retention.ms=3600000")
	var got map[string]string
	b.eventually("a description of the topic", func() bool {
		a := b.try(clients.Request{Op: "configs", Topic: b.topic})
		got = a.Configs
		return a.Error == ""
	})
	if got["retention.ms"] != "3600000" || got["cleanup.policy"] != "delete" {
		b.Fatalf("retention.ms %q, cleanup.policy %q", got["retention.ms"], got["cleanup.policy"])
	}
	b.do(clients.Request{Op: "alter", Topic: b.topic, Configs: map[string]string{"retention.ms": "7200000"}})
	b.eventually("the changed setting", func() bool {
		return b.do(clients.Request{Op: "configs", Topic: b.topic}).Configs["retention.ms"] == "7200000"
	})
	refused(b, clients.Request{Op: "alter", Topic: b.topic, Configs: map[string]string{"retention.ms": "soon"}}, "config", "invalidvalue")
}

func compactedNullKey(b *bench) {
	b.create(1, "cleanup.policy=compact")
	a := b.try(clients.Request{Op: "produce", Topic: b.topic, Records: []clients.Record{{Value: []byte("no key")}}})
	words := a.Error
	for _, ack := range a.Acks {
		words += ack.Error
	}
	if words == "" { // each client has its own, and some don't know the code
		b.Fatalf("a record without a key: %+v", a)
	}
	want := b.produce(clients.Request{Records: []clients.Record{{Key: []byte("k"), Value: []byte("v")}}})
	same(b, b.consumed("earliest", 1), want)
}

func autoCreate(b *bench) {
	want := b.produce(clients.Request{Records: some(3)})
	same(b, b.do(clients.Request{Op: "consume", Topic: b.topic, Partition: want[0].Partition, From: "earliest", Count: 3}).Records, want)
}

// emptiedBatches has each record in a batch of its own producer, so that compaction
// empties the first ones and keeps their headers.
func emptiedBatches(b *bench) {
	b.create(1, "cleanup.policy=compact", "segment.ms=100", "min.cleanable.dirty.ratio=0.01", "delete.retention.ms=600000")
	_, limit := b.client.Limits["idempotent"]
	var all []clients.Record
	for _, r := range []clients.Record{
		{Key: []byte("k"), Value: []byte("one")}, {Key: []byte("k"), Value: []byte("two")}, {Key: []byte("k")}, {Key: []byte("last")},
	} {
		all = append(all, b.produce(clients.Request{Idempotent: !limit, Records: []clients.Record{r}})...)
		<-time.After(150 * time.Millisecond) // the next one begins a segment
	}
	b.eventually("the tombstones alone are left", func() bool {
		got := b.consumed("earliest", 1)
		return len(got) == 1 && got[0].Offset == 2
	})
	same(b, b.consumed("earliest", 2), all[2:])
	if o := b.do(clients.Request{Op: "offsets", Topic: b.topic}); o.End != 4 {
		b.Fatalf("the end is %d, want 4", o.End)
	}
	m := b.join("one", clients.Request{})
	m.collect(2)
	same(b, m.total, all[2:])
	m.commit()
	m.leave()
	b.eventually("the end is committed", func() bool {
		return b.do(clients.Request{Op: "committed", Group: b.topic, Topic: b.topic}).Offset == 4
	})
}

func unknownTopic(b *bench) {
	words := []string{"unknown", "nottopic", "doesnothost", "doesnotexist"}
	refused(b, clients.Request{Op: "grow", Topic: b.topic, Partitions: 3}, words...)
	refused(b, clients.Request{Op: "delete", Topic: b.topic}, words...)
}

func autoCreateRace(b *bench) {
	other := b.start()
	both := []*bench{b, other}
	answers, errs := make([]clients.Answer, len(both)), make([]error, len(both))
	var producing sync.WaitGroup
	for i, x := range both {
		producing.Go(func() {
			answers[i], errs[i] = x.Do(clients.Request{Op: "produce", Topic: b.topic, Records: some(3)})
		})
	}
	producing.Wait()
	seen := map[int64]bool{}
	for i, a := range answers {
		if errs[i] != nil || a.Error != "" || len(a.Acks) != 3 {
			b.Fatalf("producer %d: %v, %+v", i, errs[i], a)
		}
		for _, ack := range a.Acks {
			if ack.Error != "" || ack.Partition != 0 {
				b.Fatalf("producer %d: %+v", i, ack)
			}
			seen[ack.Offset] = true
		}
	}
	if got := b.consumed("earliest", 6); len(got) != 6 || len(seen) != 6 {
		b.Fatalf("%d records are there, acknowledged at %v", len(got), seen)
	}
}

// eventually waits until ok is true. If it does not become so, more says how
// things stand.
func (b *bench) eventually(what string, ok func() bool, more ...func() string) {
	b.Helper()
	deadline := time.NewTimer(45 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			for _, f := range more {
				what += "\n" + f()
			}
			b.Fatalf("not within 45 s: %s", what)
		case <-tick.C:
		}
	}
}
