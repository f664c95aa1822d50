package record

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol/compress"
)

// kmsgRecords decodes a batch with nothing of ours: kmsg and the libraries.
func kmsgRecords(b []byte) (kmsg.RecordBatch, []kmsg.Record, error) {
	var k kmsg.RecordBatch
	if err := k.ReadFrom(b); err != nil {
		return k, nil, err
	}
	raw, err := libraryDecode(Codec(k.Attributes&7), k.Records)
	if err != nil {
		return k, nil, err
	}
	var recs []kmsg.Record
	for len(raw) > 0 {
		size, i := longVarint32(raw, 0)
		if i < 0 || size < 0 || i+int(size) > len(raw) {
			return k, recs, fmt.Errorf("record %d: length %d of %d bytes", len(recs), size, len(raw))
		}
		var r kmsg.Record
		if err := r.ReadFrom(raw[:i+int(size)]); err != nil {
			return k, recs, err
		}
		recs = append(recs, r)
		raw = raw[i+int(size):]
	}
	return k, recs, nil
}

func libraryDecode(c Codec, b []byte) ([]byte, error) {
	switch c {
	case compress.Gzip:
		r, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case compress.Snappy:
		if !bytes.HasPrefix(b, []byte("\x82SNAPPY\x00")) {
			return s2.Decode(nil, b)
		}
		var dst []byte
		for b = b[16:]; len(b) > 0; {
			n := int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3])
			part, err := s2.Decode(nil, b[4:4+n])
			if err != nil {
				return nil, err
			}
			dst, b = append(dst, part...), b[4+n:]
		}
		return dst, nil
	case compress.LZ4:
		return io.ReadAll(lz4.NewReader(bytes.NewReader(b)))
	case compress.Zstd:
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return d.DecodeAll(b, nil)
	}
	return b, nil
}

// compareKmsg checks that kmsg and Each see the same batch.
func compareKmsg(b Batch) error {
	k, recs, err := kmsgRecords(b)
	if err != nil {
		return err
	}
	i := 0
	err = b.Each(0, func(r *Record) error {
		if i == len(recs) {
			return fmt.Errorf("kmsg has only %d records", i)
		}
		o := recs[i]
		if int64(r.Offset) != k.FirstOffset+int64(o.OffsetDelta) || int64(r.Timestamp) != k.FirstTimestamp+o.TimestampDelta64 && k.Attributes&8 == 0 ||
			!bytes.Equal(r.Key, o.Key) || !bytes.Equal(r.Value, o.Value) || len(r.Headers) != len(o.Headers) {
			return fmt.Errorf("record %d: %+v, kmsg %+v", i, r, o)
		}
		for j, h := range r.Headers {
			if string(h.Key) != o.Headers[j].Key || !bytes.Equal(h.Value, o.Headers[j].Value) {
				return fmt.Errorf("record %d header %d", i, j)
			}
		}
		i++
		return nil
	})
	if err == nil && (i != len(recs) || int(k.NumRecords) != i) {
		err = fmt.Errorf("%d records, kmsg %d, header %d", i, len(recs), k.NumRecords)
	}
	return err
}

func TestKmsgReadsOurs(t *testing.T) {
	for _, c := range codecs {
		for _, n := range []int{1, 7, 2000} {
			b := NewBuilder(Options{Codec: c, BaseOffset: 31, ProducerID: 4})
			for i := range n {
				b.Append(now+1, []byte(fmt.Sprint("key", i)), bytes.Repeat([]byte("tide"), i%300), Header{Key: []byte("h"), Value: []byte{byte(i)}})
			}
			if err := compareKmsg(b.Build()); err != nil {
				t.Errorf("%s, %d records: %v", c, n, err)
			}
		}
	}
}

// TestClientBatches lets kgo, a real client, produce with each codec, and
// checks the batches it sent.
func TestClientBatches(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	var mu sync.Mutex
	var sent [][]byte
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		for _, topic := range req.(*kmsg.ProduceRequest).Topics {
			for _, p := range topic.Partitions {
				sent = append(sent, bytes.Clone(p.Records))
			}
		}
		return nil, nil, false
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for codec, opt := range map[Codec]kgo.CompressionCodec{
		compress.None: kgo.NoCompression(), compress.Gzip: kgo.GzipCompression(), compress.Snappy: kgo.SnappyCompression(),
		compress.LZ4: kgo.Lz4Compression(), compress.Zstd: kgo.ZstdCompression(),
	} {
		for _, shape := range []struct{ n, size int }{{1, 10}, {300, 200}, {5, 100_000}} {
			mu.Lock()
			sent = nil
			mu.Unlock()
			cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic("t"),
				kgo.ProducerBatchCompression(opt), kgo.ManualFlushing(), kgo.MaxBufferedRecords(1000))
			if err != nil {
				t.Fatal(err)
			}
			for i := range shape.n {
				cl.Produce(ctx, &kgo.Record{
					Key:     []byte(fmt.Sprint(i)),
					Value:   bytes.Repeat([]byte{'a', byte(i)}, shape.size/2),
					Headers: []kgo.RecordHeader{{Key: "n", Value: []byte{byte(i)}}, {Key: "null"}},
				}, nil)
			}
			if err := cl.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			cl.Close()
			mu.Lock()
			total := 0
			for _, records := range sent {
				r := DefaultRules(now * 2)
				r.Compacted = true
				p, rej := Validate(records, &r)
				if rej != nil {
					t.Errorf("%s %v: refused with %d %s", codec, shape, rej.Code, rej.Message)
					continue
				}
				total += int(p.Records)
				plain := shape.n == 1 && p.Batch.Codec() == compress.None // kgo saw no gain
				if p.Owned || p.Batch.Codec() != codec && !plain || !p.Batch.HasProducerID() {
					t.Errorf("%s %v: rebuilt, or codec %s", codec, shape, p.Batch.Codec())
				}
				if err := compareKmsg(p.Batch); err != nil {
					t.Errorf("%s %v: %v", codec, shape, err)
				}
			}
			mu.Unlock()
			if total != shape.n {
				t.Errorf("%s %v: %d records in what was sent", codec, shape, total)
			}
		}
	}
}
