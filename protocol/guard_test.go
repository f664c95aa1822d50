package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestGuardAgreesWithDecoder walks random requests of every API and version: the
// walk ends exactly where the encoding does, the decoder reads back the same
// request, and every shorter body is refused by the walk.
func TestGuardAgreesWithDecoder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	eachServed(func(api API, version int16) {
		for range 20 {
			f := filler{rng: rng, elems: 3, tags: true}
			body := f.request(api.Key, version).AppendTo(nil)
			name := fmt.Sprintf("%s v%d", api.Name, version)

			w := walk{src: body, limit: math.MaxInt64, flexible: version >= api.Flexible}
			if !guardRequest(&w, api.Key, version) {
				t.Fatalf("%s has no guard", name)
			}
			if w.err != nil || len(w.src) != 0 {
				t.Fatalf("%s: walk stopped %d bytes before the end of %d: %v\n%x", name, len(w.src), len(body), w.err, body)
			}
			req, err := DecodeRequest(RequestHeader{Key: api.Key, Version: version}, body)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if again := req.AppendTo(nil); !bytes.Equal(again, body) {
				t.Fatalf("%s: decoded and encoded again it differs\n%x\n%x", name, body, again)
			}
			for n := range body {
				if err := Guard(api.Key, version, body[:n]); !errors.Is(err, ErrShort) && !errors.Is(err, ErrMalformed) {
					t.Fatalf("%s cut to %d of %d bytes: %v, want an error", name, n, len(body), err)
				}
			}
		}
	})
}

func TestTrailingBytesAreIgnored(t *testing.T) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	body := append(req.AppendTo(nil), "more"...)
	if _, err := DecodeRequest(RequestHeader{Key: KeyApiVersions, Version: 3}, body); err != nil {
		t.Error(err)
	}
}

func TestUnservedIsRefused(t *testing.T) {
	for _, tt := range []struct{ key, version int16 }{
		{KeyProduce, 2}, {KeyProduce, 14}, {KeyProduce, -1}, {KeyFetch, 3}, {KeyMetadata, 99},
		{4, 0}, {-1, 0}, {math.MaxInt16, 0}, {math.MinInt16, 0}, {KeyApiVersions, 5},
	} {
		_, err := DecodeRequest(RequestHeader{Key: tt.key, Version: tt.version}, make([]byte, 64))
		if !errors.Is(err, ErrUnsupported) {
			t.Errorf("key %d version %d: %v, want %v", tt.key, tt.version, err, ErrUnsupported)
		}
	}
}

func TestNullWhereNotAllowed(t *testing.T) {
	tests := []struct {
		name string
		key  int16
		v    int16
		body []byte
		ok   bool
	}{
		{"metadata v0 null topics", KeyMetadata, 0, []byte{0xff, 0xff, 0xff, 0xff}, false},
		{"metadata v1 null topics", KeyMetadata, 1, []byte{0xff, 0xff, 0xff, 0xff}, true},
		{"metadata v1 topics -2", KeyMetadata, 1, []byte{0xff, 0xff, 0xff, 0xfe}, false},
		{"metadata v0 topic name -1", KeyMetadata, 0, []byte{0, 0, 0, 1, 0xff, 0xff}, false},
		{"metadata v0 topic name -2", KeyMetadata, 0, []byte{0, 0, 0, 1, 0xff, 0xfe}, false},
		{"apiversions v3 null name", KeyApiVersions, 3, []byte{0, 2, 'x', 0}, false},
		{"initproducerid v0 null id", KeyInitProducerID, 0, []byte{0xff, 0xff, 0, 0, 0, 1}, true},
		{"initproducerid v0 id -2", KeyInitProducerID, 0, []byte{0xff, 0xfe, 0, 0, 0, 1}, false},
	}
	for _, tt := range tests {
		if err := Guard(tt.key, tt.v, tt.body); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestTagBombs holds that a count of 2^32-1 tagged fields ends at the first that
// is not there. kmsg before 1.15.1 counted them all, for a minute.
func TestTagBombs(t *testing.T) {
	bomb := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	header := append([]byte{0, byte(KeyApiVersions), 0, 3, 0, 0, 0, 1, 0xff, 0xff}, bomb...)
	begin := time.Now()
	if _, _, err := ParseRequestHeader(header, ""); !errors.Is(err, ErrShort) {
		t.Errorf("header: %v, want %v", err, ErrShort)
	}
	body := append([]byte{1, 1}, bomb...)
	if _, err := DecodeRequest(RequestHeader{Key: KeyApiVersions, Version: 3}, body); !errors.Is(err, ErrShort) {
		t.Errorf("body: %v, want %v", err, ErrShort)
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	if err := req.ReadFrom(body); err == nil {
		t.Error("kmsg itself accepts the body")
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("took %v", took)
	}
}

// allocated returns how many bytes fn allocates.
func allocated(fn func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// hostile returns bodies that are cheap to send and dear to decode: for every
// array of the request one with n elements as small as they get, with and
// without an unknown tag in each, and one whose count is a lie.
func hostile(api API, version int16, n int) [][]byte {
	base := filler{rng: rand.New(rand.NewPCG(3, 4)), elems: 1}
	var out [][]byte
	for path := range arraysOf(reflect.TypeOf(kmsg.RequestForKey(api.Key)).Elem()) {
		for _, tagged := range []bool{false, true} {
			req := base.request(api.Key, version)
			if !stretch(reflect.ValueOf(req).Elem(), strings.Split(path, "."), n, tagged) {
				continue
			}
			out = append(out, req.AppendTo(nil))
		}
	}
	plain := base.request(api.Key, version).AppendTo(nil)
	pad := make([]byte, n)
	for at := range plain {
		// A huge count at every position, in both forms, with bytes behind it
		// so that the count is not refused for want of them.
		wide := binary.BigEndian.AppendUint32(bytes.Clone(plain[:at]), uint32(n))
		out = append(out, append(wide, pad...))
		compact := binary.AppendUvarint(bytes.Clone(plain[:at]), uint64(n))
		out = append(out, append(compact, pad...))
	}
	return out
}

// arraysOf returns the paths of the slices of structs and strings under a type.
func arraysOf(t reflect.Type) map[string]bool {
	paths := make(map[string]bool)
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case !f.IsExported() || f.Type.Kind() != reflect.Slice:
		case f.Type.Elem().Kind() == reflect.Struct:
			paths[f.Name] = true
			for sub := range arraysOf(f.Type.Elem()) {
				paths[f.Name+"."+sub] = true
			}
		case f.Type.Elem().Kind() == reflect.String:
			paths[f.Name] = true
		}
	}
	return paths
}

// stretch makes the array at the path n elements of zero values long.
func stretch(v reflect.Value, path []string, n int, tagged bool) bool {
	f := v.FieldByName(path[0])
	if len(path) > 1 {
		if f.Len() == 0 {
			return false
		}
		return stretch(f.Index(0), path[1:], n, tagged)
	}
	f.Set(reflect.MakeSlice(f.Type(), n, n))
	for i := range n {
		e := f.Index(i)
		if e.Kind() != reflect.Struct {
			continue
		}
		if m := e.Addr().MethodByName("Default"); m.IsValid() {
			m.Call(nil)
		}
		for j := range e.NumField() {
			// A pointer to a string that is not nullable in this version.
			if p := e.Field(j); p.Kind() == reflect.Pointer && p.Type().Elem().Kind() == reflect.String {
				p.Set(reflect.New(p.Type().Elem()))
			}
		}
		if tags := e.FieldByName("UnknownTags"); tagged && tags.IsValid() {
			tags.Addr().Interface().(*kmsg.Tags).Set(200, nil)
		}
	}
	return true
}

// TestAmplification decodes hostile bodies of every API and version and measures
// what they cost.
func TestAmplification(t *testing.T) {
	const n = 5000
	worst := make(map[string]float64)
	refused := 0
	eachServed(func(api API, version int16) {
		if testing.Short() && version != api.Max && version != api.ServedMin {
			return
		}
		for i, body := range hostile(api, version, n) {
			var err error
			got := allocated(func() {
				_, err = DecodeRequest(RequestHeader{Key: api.Key, Version: version}, body)
			})
			if errors.Is(err, ErrTooCostly) {
				refused++
			}
			if limit := MaxAmplification*len(body) + 2*costFree; got > limit {
				t.Errorf("%s v%d, hostile body %d of %d bytes: decoding allocated %d, limit %d (err %v)",
					api.Name, version, i, len(body), got, limit, err)
			}
			if r := float64(got) / float64(len(body)); len(body) > n && r > worst[api.Name] {
				worst[api.Name] = r
			}
		}
	})
	if refused == 0 {
		t.Error("no body was refused for its cost: the hostile bodies are not hostile")
	}
	for _, api := range Table() {
		t.Logf("%-24s worst ratio %.1f", api.Name, worst[api.Name])
	}
}

// TestGuardEstimatesTheDecoder holds the walk's idea of the cost against what
// decoding allocates, so that the limit means something: never less than 70 % of
// the truth.
func TestGuardEstimatesTheDecoder(t *testing.T) {
	eachServed(func(api API, version int16) {
		for i, body := range hostile(api, version, 2000) {
			w := walk{src: body, limit: math.MaxInt64, flexible: version >= api.Flexible}
			guardRequest(&w, api.Key, version)
			if w.err != nil {
				continue
			}
			req := kmsg.RequestForKey(api.Key)
			req.SetVersion(version)
			var err error
			got := allocated(func() { err = req.ReadFrom(body) })
			if err != nil {
				continue // the walk does not look into tagged fields
			}
			if w.cost < int64(got*7/10-8<<10) {
				t.Errorf("%s v%d, body %d of %d bytes: walk says %d, decoding allocated %d", api.Name, version, i, len(body), w.cost, got)
			}
		}
	})
}

func TestGuardAllocatesNothing(t *testing.T) {
	body := produceBody(10)
	if n := testing.AllocsPerRun(100, func() {
		if err := Guard(KeyProduce, 9, body); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func produceBody(partitions int) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "topic"
	for i := range partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition = int32(i)
		p.Records = make([]byte, 100)
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	return req.AppendTo(nil)
}

func TestDecodedRecordsAliasTheBody(t *testing.T) {
	body := produceBody(1)
	req, err := DecodeRequest(RequestHeader{Key: KeyProduce, Version: 9}, body)
	if err != nil {
		t.Fatal(err)
	}
	records := req.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records
	if cap(records) != len(records) {
		t.Errorf("records have room for %d bytes more: an append would write into the frame", cap(records)-len(records))
	}
	for i := range body {
		body[i] = 0xDB
	}
	if records[0] != 0xDB {
		t.Error("records were copied")
	}
	if got := req.(*kmsg.ProduceRequest).Topics[0].Topic; got != "topic" {
		t.Errorf("topic name aliases the body: %q", got)
	}
}

func FuzzRequest(f *testing.F) {
	rng := rand.New(rand.NewPCG(5, 6))
	eachServed(func(api API, version int16) {
		f.Add(api.Key, version, filler{rng: rng, elems: 2, tags: true}.request(api.Key, version).AppendTo(nil))
	})
	f.Add(KeyApiVersions, int16(3), []byte{1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		var req kmsg.Request
		var err error
		decode := func() { req, err = DecodeRequest(RequestHeader{Key: key, Version: version}, body) }
		if len(body) > 1024 {
			if got, limit := allocated(decode), MaxAmplification*len(body)+2*costFree; got > limit {
				t.Errorf("decoding %d bytes allocated %d, limit %d", len(body), got, limit)
			}
		} else {
			decode()
		}
		if err != nil {
			return
		}
		again := req.AppendTo(nil)
		second, err := DecodeRequest(RequestHeader{Key: key, Version: version}, again)
		if err != nil {
			t.Fatalf("what was decoded and encoded can't be decoded: %v", err)
		}
		if third := second.AppendTo(nil); !bytes.Equal(again, third) {
			t.Fatalf("encoding is not stable\n%x\n%x", again, third)
		}
	})
}

func BenchmarkGuard(b *testing.B) {
	for _, partitions := range []int{1, 100} {
		body := produceBody(partitions)
		b.Run(fmt.Sprintf("produce-%d", partitions), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := Guard(KeyProduce, 9, body); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("decode-%d", partitions), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeRequest(RequestHeader{Key: KeyProduce, Version: 9}, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
