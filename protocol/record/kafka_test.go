package record

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/compress"
)

// kafkaAnswers is what a running Apache Kafka 4.3.1 said to each case: name,
// code, indexes of record errors, and what it stored. It is recorded again by
// go test -run TestKafka -kafka HOST:PORT against a broker that may lose data.
const kafkaAnswers = "testdata/kafka-4.3.1.txt"

var kafkaAddr = flag.String("kafka", "", "record the answers of the Apache Kafka at this address")

// kafkaCases are the rows, all damaged records, and batches that are put
// right.
func kafkaCases(now, past model.Timestamp) []rowCase {
	cases := slices.DeleteFunc(rowCases(now, past), func(tc rowCase) bool {
		return tc.name == "transactional" // needs a transactional id in the request
	})
	topic := DefaultRules(now)
	hs := hostileRecords()
	for _, name := range slices.Sorted(maps.Keys(hs)) {
		for _, c := range codecs {
			cases = append(cases, rowCase{"damage, " + c.String() + ": " + name, wrap(c, hs[name].count, hs[name].bytes), topic, CodeInvalidRecord, false, nil})
		}
	}
	for _, c := range codecs {
		b := NewBuilder(Options{Codec: c, ProducerID: 5, BaseSequence: 1})
		for i, delta := range []int32{0, 0, 7} {
			b.AppendAt(delta, now+model.Timestamp(i), []byte("k"), []byte("v"))
		}
		b.SetLastOffsetDelta(2)
		cases = append(cases,
			rowCase{"row 24, " + c.String() + ": deltas 0 0 7", b.Build(), topic, 0, false, nil},
			rowCase{"maxTimestamp, " + c.String(), edit(build(Options{Codec: c}, 3), func(b Batch) { put(b, posMaxTimestamp, 8, 5) }), topic, 0, false, nil},
			rowCase{"reserved bits, " + c.String(), edit(build(Options{Codec: c}, 3), func(b Batch) { b[posAttributes], b[posAttributes+1] = 0xff, b[posAttributes+1]|0x80 }), topic, 0, false, nil},
			rowCase{"delete horizon, " + c.String(), edit(build(Options{Codec: c}, 3), func(b Batch) { b[posAttributes+1] |= bitDeleteHorizon }), topic, 0, false, nil},
		)
		for _, to := range codecs {
			r := topic
			r.KeepCodec, r.Codec = false, to
			cases = append(cases, rowCase{"recompress " + c.String() + " to " + to.String(), build(Options{Codec: c, ProducerID: 5, BaseSequence: 1}, 3), r, 0, false, nil})
			r.TimestampType = LogAppendTime
			cases = append(cases, rowCase{"recompress " + c.String() + " to " + to.String() + ", LogAppendTime", build(Options{Codec: c}, 3), r, 0, false, nil})
		}
	}
	return cases
}

// stored says what matters of a batch in the log.
func stored(b Batch) string {
	var deltas []string
	err := b.Each(0, func(r *Record) error {
		deltas = append(deltas, fmt.Sprint(int64(r.Offset-b.BaseOffset())))
		return nil
	})
	if err != nil {
		deltas = append(deltas, "unreadable")
	}
	times := fmt.Sprintf("base %d max %d", b.BaseTimestamp(), b.MaxTimestamp())
	if b.BaseTimestamp() > 1<<40 {
		times = fmt.Sprintf("max-base %d", b.MaxTimestamp()-b.BaseTimestamp())
	}
	if b.MaxTimestamp()-b.BaseTimestamp() > 10_000 {
		times = "times apart"
	}
	if b.TimestampType() == LogAppendTime {
		times = fmt.Sprintf("base %d", b.BaseTimestamp())
	}
	if len(deltas) > 5 {
		deltas = append(deltas[:2], fmt.Sprintf("... %d", len(deltas)))
	}
	return fmt.Sprintf("attributes %x last %d count %d %s producer %d %d %d deltas %s", uint16(b.Attributes()), b.LastOffsetDelta(), b.Count(), times,
		b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), strings.Join(deltas, " "))
}

// answer is one line of the file.
func answer(name string, code int16, bad []int32, store string) string {
	return fmt.Sprintf("%s | %d | %v | %s\n", name, code, bad, store)
}

// ourAnswer is the line that Validate gives.
func ourAnswer(tc rowCase) string {
	p, rej := Validate(bytes.Clone(tc.in), &tc.rules)
	if rej != nil {
		var bad []int32
		for _, e := range rej.Records {
			bad = append(bad, e.Index)
		}
		return answer(tc.name, rej.Code, bad, "")
	}
	if tc.rules.TimestampType == LogAppendTime {
		p.StampAppendTime(now)
	}
	return answer(tc.name, 0, nil, stored(p.Batch))
}

// differences are the cases in which we don't do as Kafka does, on purpose. A
// case's name has one of the parts.
var differences = []struct {
	why   string
	parts []string
}{
	{"a decompressed batch has a limit here", []string{"decompressed size"}},
	{"Kafka's size overflows, and the whole request fails", []string{"length 2^31-1"}},
	{"Kafka reads fields behind the batch before it looks at the size", []string{"row 14: size 42"}},
	{"Kafka takes these, clears the bit and keeps the maxTimestamp that no record has", []string{"row 23: LogAppendTime batch"}},
	{"Kafka fails with UNKNOWN_SERVER_ERROR on what it can't decode", []string{"undecodable", "none: length overlong"}},
	{"Kafka takes any negative length for null", []string{"header value -2", "key length -2", "key length -5", "value length -2"}},
	{"Kafka doesn't compare the length of a compressed record with its fields", []string{
		"gzip: length", "snappy: length", "lz4: length", "zstd: length"}},
	{"Kafka stores wrong deltas, or fails with UNKNOWN_SERVER_ERROR", []string{"row 24"}},
}

func TestKafkaAnswers(t *testing.T) {
	if *kafkaAddr != "" {
		recordKafka(t)
	}
	file, err := os.ReadFile(kafkaAnswers)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(file), "\n")
	used := make([]bool, len(differences))
	for i, tc := range kafkaCases(now, 1) {
		ours := ourAnswer(tc)
		if i >= len(lines) {
			t.Fatalf("%d answers are too few", len(lines))
		}
		if ours == lines[i] {
			continue
		}
		found := false
		for j, d := range differences {
			if slices.ContainsFunc(d.parts, func(part string) bool { return strings.Contains(tc.name, part) }) {
				used[j], found = true, true
			}
		}
		if !found {
			t.Errorf("ours  %sKafka %s", ours, lines[i])
		}
	}
	for j, u := range used {
		if !u {
			t.Errorf("no case differs because %s", differences[j].why)
		}
	}
}

// recordKafka asks a broker each case, on topics made for the rules.
func recordKafka(t *testing.T) {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.Produce), 9)
	versions.SetMaxKeyVersion(int16(kmsg.Fetch), 12)
	oldVersions := kversion.Stable()
	oldVersions.SetMaxKeyVersion(int16(kmsg.Produce), 6)
	newer, err := kgo.NewClient(kgo.SeedBrokers(*kafkaAddr), kgo.MaxVersions(versions))
	if err != nil {
		t.Fatal(err)
	}
	defer newer.Close()
	older, err := kgo.NewClient(kgo.SeedBrokers(*kafkaAddr), kgo.MaxVersions(oldVersions))
	if err != nil {
		t.Fatal(err)
	}
	defer older.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := recordJava(ctx, newer); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for i, tc := range kafkaCases(model.Timestamp(time.Now().UnixMilli()), 20_000) {
		topic := fmt.Sprintf("case-%d-%d", time.Now().UnixNano(), i)
		if err := createFor(ctx, newer, topic, &tc.rules, ""); err != nil {
			t.Fatal(tc.name, err)
		}
		cl := newer
		if tc.rules.Version < 7 {
			cl = older
		}
		line, err := ask(ctx, cl, newer, topic, tc)
		if err != nil {
			t.Fatal(tc.name, err)
		}
		out.WriteString(line)
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kafkaAnswers, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func createFor(ctx context.Context, cl *kgo.Client, topic string, r *Rules, level string) error {
	codec := "producer"
	if !r.KeepCodec {
		if codec = r.Codec.String(); r.Codec == compress.None {
			codec = "uncompressed"
		}
	}
	policy := "delete"
	if r.Compacted {
		policy = "compact"
	}
	configs := map[string]string{
		"compression.type": codec, "cleanup.policy": policy, "message.timestamp.type": r.TimestampType.String(),
		"max.message.bytes":               fmt.Sprint(r.MaxBatchBytes),
		"message.timestamp.before.max.ms": fmt.Sprint(r.BeforeMaxMs), "message.timestamp.after.max.ms": fmt.Sprint(r.AfterMaxMs),
	}
	if level != "" {
		configs["compression."+codec+".level"] = level
	}
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, 1, 1
	for k, v := range configs { // order-free
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, &v
		rt.Configs = append(rt.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}

// ask produces the case once and, if it was taken, fetches what was stored.
func ask(ctx context.Context, cl, fetcher *kgo.Client, topic string, tc rowCase) (string, error) {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = append([]byte{}, tc.in...) // not null
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rt.Partitions = append(rt.Partitions, p)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	req.Topics = append(req.Topics, rt)
	var rp kmsg.ProduceResponseTopicPartition
	for {
		resp, err := cl.Broker(1).Request(ctx, req)
		if err != nil {
			return "", err
		}
		rp = resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if rp.ErrorCode != kerr.UnknownTopicOrPartition.Code && rp.ErrorCode != kerr.NotLeaderForPartition.Code {
			break // else the new topic isn't there yet
		}
	}
	if rp.ErrorCode != 0 {
		var bad []int32
		for _, e := range rp.ErrorRecords {
			bad = append(bad, e.RelativeOffset)
		}
		return answer(tc.name, rp.ErrorCode, bad, ""), nil
	}
	b, err := fetchFirst(ctx, fetcher, topic)
	if err != nil {
		return "", err
	}
	return answer(tc.name, 0, nil, stored(b)), nil
}

func fetchFirst(ctx context.Context, cl *kgo.Client, topic string) (Batch, error) {
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.PartitionMaxBytes = 100 << 20
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = topic
	ft.Partitions = append(ft.Partitions, fp)
	freq := kmsg.NewPtrFetchRequest()
	freq.MaxWaitMillis, freq.MaxBytes = 1000, 100<<20
	freq.Topics = append(freq.Topics, ft)
	resp, err := cl.Broker(1).Request(ctx, freq)
	if err != nil {
		return nil, err
	}
	it := NewIter(resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches)
	if !it.Next() {
		return nil, fmt.Errorf("nothing stored: %v", it.Err())
	}
	return it.Batch(), nil
}

// javaBatches are batches that Kafka has compressed, with the Java libraries
// that its producer uses too. File names are codec and level.
var javaBatches = []struct {
	codec Codec
	level string
}{
	{compress.Gzip, "9"}, {compress.Snappy, ""}, {compress.LZ4, ""}, {compress.LZ4, "17"}, {compress.Zstd, "3"}, {compress.Zstd, "22"},
}

func javaFile(i int) string {
	return fmt.Sprintf("testdata/java-%s%s.batch", javaBatches[i].codec, javaBatches[i].level)
}

// javaRecords are the records of those batches: more than a block of any
// codec, and one that is larger than a window.
func javaRecords() []given {
	gs := make([]given, 300)
	for i := range gs {
		value := strings.Repeat(fmt.Sprintf("the tide of record %d leaves its mark; ", i), 20)
		gs[i] = given{delta: int32(i), ts: now + model.Timestamp(i), key: fmt.Append(nil, i), value: []byte(value)}
	}
	gs[100].value = bytes.Repeat([]byte("low "), 50_000)
	gs[200].headers = []Header{{Key: []byte("h"), Value: []byte("v")}, {Key: []byte("null")}}
	gs[201].value = nil
	return gs
}

func recordJava(ctx context.Context, cl *kgo.Client) error {
	for i, j := range javaBatches {
		topic := fmt.Sprintf("java-%d-%d", time.Now().UnixNano(), i)
		r := DefaultRules(now)
		r.KeepCodec, r.Codec = false, j.codec
		if err := createFor(ctx, cl, topic, &r, j.level); err != nil {
			return err
		}
		if _, err := ask(ctx, cl, cl, topic, rowCase{in: buildGiven(Options{}, javaRecords())}); err != nil {
			return err
		}
		b, err := fetchFirst(ctx, cl, topic)
		if err != nil {
			return err
		}
		if err := os.WriteFile(javaFile(i), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func TestJavaBatches(t *testing.T) {
	for i, j := range javaBatches {
		b, err := os.ReadFile(javaFile(i))
		if err != nil {
			t.Fatal(err)
		}
		batch := Batch(b)
		if err := errors.Join(batch.CheckHeader(), batch.CheckCRC(), checkEach(batch, javaRecords())); err != nil || batch.Codec() != j.codec {
			t.Errorf("%s: codec %s, %v", javaFile(i), batch.Codec(), err)
		}
		r := DefaultRules(now)
		if p, rej := Validate(b, &r); rej != nil || p.Owned {
			t.Errorf("%s: %+v", javaFile(i), rej)
		}
	}
}
