//go:build compat

package compat_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/compat/target"
	"github.com/tidemark/tidemark/protocol/compress"
	"github.com/tidemark/tidemark/protocol/record"
)

func codecs() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

// way is one topic that the corpus went to.
type way struct {
	topic string
	codec string
	keyed bool
}

// A real file goes through the broker with every codec, with and without keys,
// and comes back byte for byte: at once, after a restart, and after kill -9.
func TestKcatCorpus(t *testing.T) {
	n := startNode(t)
	corpora := map[bool]corpus{false: makeCorpus(t, false), true: makeCorpus(t, true)}
	var ways []way
	for _, codec := range codecs() {
		for _, keyed := range []bool{false, true} {
			w := way{topic: fmt.Sprintf("corpus-%s-%v", codec, keyed), codec: codec, keyed: keyed}
			ways = append(ways, w)
			// The topic does not exist yet: producing creates it.
			argv := []string{"kcat", "-P", "-b", n.Addr, "-t", w.topic, "-p", "0", "-z", codec, "-X", "linger.ms=20", "-X", "acks=all"}
			if keyed {
				argv = append(argv, "-K", "\t")
			}
			run(t, corpora[keyed].open(t), argv...)
		}
	}
	consumeAll := func(when string) {
		for _, w := range ways {
			argv := []string{"kcat", "-C", "-b", n.Addr, "-t", w.topic, "-p", "0", "-o", "beginning", "-e", "-q"}
			if w.keyed {
				argv = append(argv, "-K", "\t")
			}
			if got := run(t, nil, argv...).Stdout; sum(got) != corpora[w.keyed].sum {
				t.Errorf("%s, %s: %d bytes in %d lines came back, not the %d lines of the file",
					when, w.topic, len(got), strings.Count(got, "\n"), corpora[w.keyed].lines)
			}
		}
	}
	consumeAll("at once")
	for _, w := range ways {
		checkStoredCodec(t, n, w.topic, w.codec)
	}
	restart(t, n, false)
	consumeAll("after SIGTERM")
	restart(t, n, true)
	consumeAll("after kill -9")
}

// tinyBatch is the size in bytes below which text may not compress.
const tinyBatch = 2000

// checkStoredCodec asserts that the stored batches have the codec that their
// producer chose: a producer that misread the broker's versions would send its
// batches uncompressed without a word. librdkafka leaves a batch as it is when
// compressing does not make it smaller, as with the corpus's last few lines or a
// line that had to go alone.
func checkStoredCodec(t *testing.T, n *target.Node, topic, want string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(n.PartitionDir(topic, 0), "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("%s: no segments (%v)", topic, err)
	}
	stored, dumped := map[string]int{}, map[string]int{}
	tiny := 0 // uncompressed batches too small to be compressed
	for _, name := range logs {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		it := record.NewIter(data)
		for it.Next() {
			b := it.Batch()
			stored[b.Codec().String()]++
			if b.Codec() == compress.None && b.Size() < tinyBatch {
				tiny++
			}
		}
		if err := it.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !target.IsKafka() {
			countDumped(t, name, dumped)
		}
	}
	total := 0
	for _, count := range stored {
		total += count
	}
	if want == "none" {
		tiny = 0
	}
	if stored[want] < 10 || total != stored[want]+tiny {
		t.Errorf("%s: stored batches by codec %v, want all %s", topic, stored, want)
	}
	if !target.IsKafka() && !maps.Equal(stored, dumped) {
		t.Errorf("%s: tidemark log dump counts %v, the segments hold %v", topic, dumped, stored)
	}
}

// countDumped counts the batches of a segment by codec, as the dump command
// prints them: one JSON object a line, each batch with its codec.
func countDumped(t *testing.T, segment string, counts map[string]int) {
	t.Helper()
	out := run(t, nil, binary, "log", "dump", "--json", segment).Stdout
	for line := range strings.Lines(out) {
		var item struct {
			Codec *string `json:"compresscodec"`
		}
		if err := json.Unmarshal([]byte(line), &item); err != nil {
			t.Fatalf("log dump of %s: %v in %q", segment, err, line)
		}
		if item.Codec != nil {
			counts[*item.Codec]++
		}
	}
}

// kcat -Q asks ListOffsets for times.
func TestKcatOffsetsByTime(t *testing.T) {
	n := startNode(t)
	cl := client(t, n, kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("times"))
	base := time.Now().Add(-time.Hour).UnixMilli()
	for i := range 10 {
		r := &kgo.Record{Value: []byte{byte('a' + i)}, Timestamp: time.UnixMilli(base + int64(i)*1000)}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		at   int64
		want int
	}{
		{-2, 0}, {-1, 10}, {base - 5, 0}, {base, 0}, {base + 1, 1}, {base + 4000, 4}, {base + 4001, 5}, {base + 9000, 9}, {base + 9001, 10},
	} {
		out := run(t, nil, "kcat", "-Q", "-b", n.Addr, "-t", fmt.Sprintf("times:0:%d", c.at)).Stdout
		got := strings.TrimSpace(out)
		// librdkafka says -1 (shown as such) when no record is that young.
		want := fmt.Sprintf("times [0] offset %d", c.want)
		if c.at > base+9000 {
			want = "times [0] offset -1"
		}
		if got != want {
			t.Errorf("at %d (base%+d): got %q, want %q", c.at, c.at-base, got, want)
		}
	}
}

// Headers, null values and keys, and the metadata listing.
func TestKcatDetails(t *testing.T) {
	n := startNode(t, "num.partitions=3")
	run(t, strings.NewReader("k1:v1\nk2:\n:v3\n"), "kcat", "-P", "-b", n.Addr, "-t", "details", "-p", "1", "-K:", "-Z", "-H", "a=b", "-H", "c=")
	out := run(t, nil, "kcat", "-C", "-b", n.Addr, "-t", "details", "-p", "1", "-o", "beginning", "-e", "-q",
		"-f", `%p@%o key=%k(%K) value=%s(%S) %h\n`).Stdout
	want := "1@0 key=k1(2) value=v1(2) a=b,c=\n1@1 key=k2(2) value=(-1) a=b,c=\n1@2 key=(-1) value=v3(2) a=b,c=\n"
	if got := strings.ReplaceAll(out, "key=NULL(", "key=("); got != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
	list := run(t, nil, "kcat", "-L", "-b", n.Addr, "-t", "details").Stdout
	for _, want := range []string{"broker 1 at " + n.Addr + " (controller)", `topic "details" with 3 partitions:`, "partition 2, leader 1, replicas: 1, isrs: 1"} {
		if !strings.Contains(list, want) {
			t.Errorf("kcat -L lacks %q:\n%s", want, list)
		}
	}
	list = run(t, nil, "kcat", "-L", "-J", "-b", n.Addr).Stdout
	if !json.Valid([]byte(list)) || !strings.Contains(list, `"details"`) {
		t.Errorf("kcat -L -J: %s", list)
	}
}

// librdkafka's idempotent producer.
func TestKcatIdempotent(t *testing.T) {
	n := startNode(t)
	var lines strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&lines, "line %d\n", i)
	}
	run(t, strings.NewReader(lines.String()), "kcat", "-P", "-b", n.Addr, "-t", "idempotent", "-X", "enable.idempotence=true", "-X", "batch.num.messages=100")
	out := run(t, nil, "kcat", "-C", "-b", n.Addr, "-t", "idempotent", "-o", "beginning", "-e", "-q").Stdout
	if out != lines.String() {
		t.Errorf("%d bytes came back of %d", len(out), lines.Len())
	}
	logs, err := filepath.Glob(filepath.Join(n.PartitionDir("idempotent", 0), "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("segments %v (%v)", logs, err)
	}
	data, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	next := int32(0)
	for it := record.NewIter(data); it.Next(); {
		b := it.Batch()
		if b.ProducerID() < 0 || int32(b.BaseSequence()) != next {
			t.Fatalf("batch at %d: producer %d, sequence %d, want %d", b.BaseOffset(), b.ProducerID(), b.BaseSequence(), next)
		}
		next += b.Count()
	}
	if next != 5000 {
		t.Errorf("%d records stored", next)
	}
}
