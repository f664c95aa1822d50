package compress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"runtime"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

var all = []Codec{None, Gzip, Snappy, LZ4, Zstd}

// text makes n bytes that compress, but not to nothing.
func text(seed int64, n int) []byte {
	r := rand.New(rand.NewSource(seed))
	words := []string{"offset", "epoch", "leader", "{\"id\":", "batch", "\x00\x01\x02", "tide", "mark "}
	var b []byte
	for len(b) < n {
		b = append(b, words[r.Intn(len(words))]...)
		if r.Intn(4) == 0 {
			b = append(b, byte(r.Intn(256)))
		}
	}
	return b[:n]
}

func noise(seed int64, n int) []byte {
	b := make([]byte, n)
	rand.New(rand.NewSource(seed)).Read(b)
	return b
}

func decompress(c Codec, src []byte, limit int64) ([]byte, error) {
	r, err := NewReader(c, src, limit)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// otherEncoders are encoders of the libraries that clients use, with the
// shapes that ours doesn't write.
var otherEncoders = map[string]struct {
	codec  Codec
	encode func(src []byte) []byte
}{
	"snappy bare":      {Snappy, func(src []byte) []byte { return s2.EncodeSnappy(nil, src) }},
	"snappy bare best": {Snappy, func(src []byte) []byte { return s2.EncodeSnappyBest(nil, src) }},
	"gzip members": {Gzip, func(src []byte) []byte {
		var b bytes.Buffer
		for _, part := range [][]byte{src[:len(src)/2], src[len(src)/2:]} {
			w := gzip.NewWriter(&b)
			w.Write(part)
			w.Close()
		}
		return b.Bytes()
	}},
	"lz4 4 MiB blocks": {LZ4, func(src []byte) []byte { return lz4Frame(src, lz4.BlockSizeOption(lz4.Block4Mb)) }},
	"lz4 checksums": {LZ4, func(src []byte) []byte {
		return lz4Frame(src, lz4.BlockSizeOption(lz4.Block256Kb), lz4.BlockChecksumOption(true), lz4.ChecksumOption(true))
	}},
	"lz4 size": {LZ4, func(src []byte) []byte { return lz4Frame(src, lz4.SizeOption(uint64(len(src)))) }},
	"zstd one segment": {Zstd, func(src []byte) []byte {
		e, _ := zstd.NewWriter(nil, zstd.WithSingleSegment(true))
		return e.EncodeAll(src, nil)
	}},
	"zstd frames": {Zstd, func(src []byte) []byte {
		e, _ := zstd.NewWriter(nil)
		return e.EncodeAll(src[len(src)/3:], e.EncodeAll(src[:len(src)/3], nil))
	}},
	"zstd 64 MiB window": {Zstd, func(src []byte) []byte {
		var b bytes.Buffer
		e, _ := zstd.NewWriter(&b, zstd.WithWindowSize(64<<20), zstd.WithEncoderLevel(zstd.SpeedBestCompression))
		e.Write(src[:len(src)/2])
		e.Flush() // else a short stream becomes one segment
		e.Write(src[len(src)/2:])
		e.Close()
		return b.Bytes()
	}},
}

func lz4Frame(src []byte, opts ...lz4.Option) []byte {
	var b bytes.Buffer
	w := lz4.NewWriter(&b)
	if err := w.Apply(append([]lz4.Option{lz4.ChecksumOption(false)}, opts...)...); err != nil {
		panic(err)
	}
	w.Write(src)
	w.Close()
	return b.Bytes()
}

func samples() map[string][]byte {
	return map[string][]byte{
		"empty":    {},
		"one":      {7},
		"small":    text(1, 100),
		"block":    text(2, 64<<10),
		"block+1":  text(3, 64<<10+1),
		"MiB":      text(4, 1<<20),
		"noise":    noise(5, 200_000),
		"zeros":    make([]byte, 9<<20),
		"far copy": append(append(noise(6, 3<<20), text(7, 1<<20)...), noise(6, 3<<20)...),
		"large":    append(append(noise(8, 5<<20), text(9, 2<<20)...), noise(8, 5<<20)...),
	}
}

func TestRoundTrip(t *testing.T) {
	for name, src := range samples() {
		for _, c := range all {
			for _, level := range []int{-5, 0, 1, 5, 9, 17, 100} {
				if level != 0 && len(src) > 1<<18 {
					continue
				}
				packed, err := Compress([]byte("kept"), c, level, src)
				if err != nil || string(packed[:4]) != "kept" {
					t.Fatalf("%s %s level %d: %v", name, c, level, err)
				}
				got, err := decompress(c, packed[4:], int64(len(src))+1)
				if err != nil || !bytes.Equal(got, src) {
					t.Fatalf("%s %s level %d: %d bytes of %d, %v", name, c, level, len(got), len(src), err)
				}
			}
		}
		for shape, enc := range otherEncoders {
			if len(src) > 1<<20 && (name != "large" || shape == "snappy bare best" || shape == "lz4 checksums") {
				continue
			}
			got, err := decompress(enc.codec, enc.encode(src), 0)
			if err != nil || !bytes.Equal(got, src) {
				t.Errorf("%s, %s: %d bytes of %d, %v", name, shape, len(got), len(src), err)
			}
		}
	}
}

// TestOthersReadOurs reads what Compress writes with the libraries that
// clients use.
func TestOthersReadOurs(t *testing.T) {
	read := map[Codec]func(b []byte) ([]byte, error){
		Gzip: func(b []byte) ([]byte, error) {
			r, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil {
				return nil, err
			}
			return io.ReadAll(r)
		},
		Snappy: func(b []byte) ([]byte, error) {
			var dst []byte
			if len(b) > 0 {
				b = b[16:]
			}
			for len(b) > 0 {
				n := binary.BigEndian.Uint32(b)
				part, err := s2.Decode(nil, b[4:4+n])
				if err != nil {
					return nil, err
				}
				dst, b = append(dst, part...), b[4+n:]
			}
			return dst, nil
		},
		LZ4: func(b []byte) ([]byte, error) { return io.ReadAll(lz4.NewReader(bytes.NewReader(b))) },
		Zstd: func(b []byte) ([]byte, error) {
			d, err := zstd.NewReader(nil)
			if err != nil {
				return nil, err
			}
			defer d.Close()
			return d.DecodeAll(b, nil)
		},
	}
	for name, src := range samples() {
		for c, f := range read {
			for _, level := range []int{0, 3} {
				if level != 0 && len(src) > 1<<18 {
					continue
				}
				packed, err := Compress(nil, c, level, src)
				if err != nil {
					t.Fatal(err)
				}
				got, err := f(packed)
				if err != nil || !bytes.Equal(got, src) {
					t.Errorf("%s %s: %d bytes of %d, %v", name, c, len(got), len(src), err)
				}
			}
		}
	}
}

func TestLimit(t *testing.T) {
	src := text(1, 300_000)
	check := func(name string, c Codec, packed []byte) {
		t.Helper()
		if got, err := decompress(c, packed, int64(len(src))); err != nil || len(got) != len(src) {
			t.Errorf("%s at the limit: %d bytes, %v", name, len(got), err)
		}
		for _, limit := range []int64{1, 1000, int64(len(src)) - 1} {
			got, err := decompress(c, packed, limit)
			if !errors.Is(err, ErrTooLarge) || int64(len(got)) > limit {
				t.Errorf("%s limit %d: %d bytes, %v", name, limit, len(got), err)
			}
		}
	}
	for _, c := range all[1:] {
		packed, err := Compress(nil, c, 0, src)
		if err != nil {
			t.Fatal(err)
		}
		check(c.String(), c, packed)
	}
	for name, enc := range otherEncoders {
		check(name, enc.codec, enc.encode(src))
	}
}

func TestWriterLimit(t *testing.T) {
	src := noise(1, 300_000)
	for _, c := range all {
		whole, err := Compress(nil, c, 0, src)
		if err != nil {
			t.Fatal(err)
		}
		for limit, want := range map[int]error{len(whole): nil, len(whole) - 1: ErrTooLarge, 50: ErrTooLarge} {
			w, err := NewWriter(c, 0, nil, limit)
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.Write(src)
			got, cerr := w.Close()
			if err == nil {
				err = cerr
			}
			if !errors.Is(err, want) || len(got) > limit {
				t.Errorf("%s limit %d of %d: %d bytes, %v", c, limit, len(whole), len(got), err)
			}
		}
	}
}

func TestPeek(t *testing.T) {
	src := text(1, 500_000)
	for _, c := range all {
		packed, err := Compress(nil, c, 0, src)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(c, packed, 0)
		if err != nil {
			t.Fatal(err)
		}
		rnd := rand.New(rand.NewSource(1))
		var got []byte
		for {
			want := rnd.Intn(WindowSize + 1)
			b, err := r.Peek(want)
			if len(b) < want && err != io.EOF {
				t.Fatalf("%s: %d bytes of %d, %v", c, len(b), want, err)
			}
			if len(b) == 0 && err == io.EOF {
				break
			}
			n := rnd.Intn(len(b) + 1)
			got = append(got, b[:n]...)
			r.Advance(n)
		}
		r.Close()
		if !bytes.Equal(got, src) {
			t.Errorf("%s: got %d bytes", c, len(got))
		}
	}
}

// TestHostile holds inputs that lie or are cut.
func TestHostile(t *testing.T) {
	frame := lz4Frame(text(1, 5000))
	change := func(b []byte, at int, v byte) []byte {
		b = bytes.Clone(b)
		b[at] = v
		return b
	}
	// flags changes a frame's flags or block size and signs the header again.
	flags := func(at int, v byte) []byte {
		b := change(frame, at, v)
		b[6] = byte(xxh32(b[4:6]) >> 8)
		return b
	}
	sums := lz4Frame(text(1, 5000), lz4.BlockChecksumOption(true))
	big := append(bytes.Clone(frame[:7]), 1, 0, 1, 0x80) // a raw block of 64 KiB + 1
	big[5] = lz4BlockSizeID
	big[6] = byte(xxh32(big[4:6]) >> 8)
	big = append(append(big, make([]byte, 64<<10+1)...), 0, 0, 0, 0)
	zs, err := Compress(nil, Zstd, 0, text(1, 5000))
	if err != nil {
		t.Fatal(err)
	}
	var legacy bytes.Buffer
	lw := lz4.NewWriter(&legacy)
	lw.Apply(lz4.LegacyOption(true))
	lw.Write(text(1, 100))
	lw.Close()
	cases := []struct {
		name string
		c    Codec
		in   []byte
		want error
	}{
		{"snappy claims 3.7 GiB in six bytes", Snappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0e, 0x00}, ErrCorrupt},
		{"snappy overlong length", Snappy, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, ErrCorrupt},
		{"snappy nothing", Snappy, nil, ErrCorrupt},
		{"snappy claims more than the limit", Snappy, append(binary.AppendUvarint(nil, 1<<20), make([]byte, 1<<17)...), ErrTooLarge},
		{"xerial chunk of 2 GiB", Snappy, []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x7f\xff\xff\xff\x00"), ErrCorrupt},
		{"xerial cut length", Snappy, []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00"), ErrCorrupt},
		{"xerial empty", Snappy, []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"), nil},
		{"gzip nothing", Gzip, nil, ErrCorrupt},
		{"gzip noise", Gzip, noise(1, 100), ErrCorrupt},
		{"lz4 nothing", LZ4, nil, ErrCorrupt},
		{"lz4 legacy", LZ4, legacy.Bytes(), ErrCorrupt},
		{"lz4 dependent blocks", LZ4, flags(4, frame[4]&^lz4Independent), ErrCorrupt},
		{"lz4 dictionary", LZ4, flags(4, frame[4]|1), ErrCorrupt},
		{"lz4 header checksum", LZ4, change(frame, 6, frame[6]+1), ErrCorrupt},
		{"lz4 as it was", LZ4, flags(4, frame[4]), nil},
		{"lz4 version 2", LZ4, flags(4, frame[4]^0xc0), ErrCorrupt},
		{"lz4 block size 3", LZ4, flags(5, 3<<4), ErrCorrupt},
		{"lz4 block size reserved bit", LZ4, flags(5, 0x41), ErrCorrupt},
		{"lz4 block sums", LZ4, sums, nil},
		{"lz4 block sum is wrong", LZ4, change(sums, len(sums)-5, sums[len(sums)-5]+1), ErrCorrupt},
		{"lz4 block over the block size", LZ4, big, ErrCorrupt},
		{"lz4 block of 2 GiB", LZ4, change(frame, 10, 0x7f), ErrCorrupt},
		{"lz4 bytes behind the frame", LZ4, append(bytes.Clone(frame), 1, 2, 3), ErrCorrupt},
		{"lz4 two frames", LZ4, append(bytes.Clone(frame), frame...), ErrCorrupt},
		{"zstd noise", Zstd, noise(1, 100), ErrCorrupt},
		{"zstd reserved bit", Zstd, change(zs, 4, zs[4]|8), ErrCorrupt},
		{"zstd bytes behind the frame", Zstd, append(bytes.Clone(zs), 1, 2, 3, 4, 5), ErrCorrupt},
		{"no such codec", 5, nil, ErrUnknownCodec},
	}
	for _, tc := range cases {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decompress(tc.c, tc.in, 1<<19)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
			t.Errorf("%s: allocated %d bytes", tc.name, used)
		}
	}
	for _, c := range all[1:] {
		whole, err := Compress(nil, c, 0, text(1, 70_000))
		if err != nil {
			t.Fatal(err)
		}
		for n := range len(whole) - 1 {
			if n > 200 && n < len(whole)-200 && n%97 != 0 {
				continue
			}
			got, err := decompress(c, whole[:n], 0)
			if c == Snappy && err == nil && len(got)%xerialBlock == 0 {
				continue // cut between two chunks: nothing marks the end
			}
			if c == Zstd && n < 4 && err == nil {
				continue // the library takes a cut magic for the end
			}
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s cut to %d of %d: %v", c, n, len(whole), err)
			}
		}
	}
}

// TestBombs decodes 256 MiB of zeros to the end, and under the default cap,
// and measures the most memory held on the way.
func TestBombs(t *testing.T) {
	const size = 256 << 20
	bombs := map[string]struct {
		c    Codec
		data []byte
	}{"snappy bare": {Snappy, bareZeros(size)}}
	chunk := make([]byte, 1<<20)
	for _, c := range all[1:] {
		w, err := NewWriter(c, 0, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range size / len(chunk) {
			w.Write(chunk)
		}
		b, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		bombs[c.String()] = struct {
			c    Codec
			data []byte
		}{c, b}
	}
	bombs["lz4 4 MiB"] = struct {
		c    Codec
		data []byte
	}{LZ4, lz4Frame(make([]byte, 64<<20), lz4.BlockSizeOption(lz4.Block4Mb))}
	for name, b := range bombs {
		for _, limit := range []int64{size, 64<<20 - 1} {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			n, err := drain(b.c, b.data, limit)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
				t.Errorf("%s limit %d: %d bytes allocated for %d", name, limit, used, n)
			}
			if want := limit < size; errors.Is(err, ErrTooLarge) != want {
				t.Errorf("%s limit %d: %d bytes, %v", name, limit, n, err)
			}
		}
	}
}

// bareZeros writes one snappy block of n zeros by hand.
func bareZeros(n int) []byte {
	b := binary.AppendUvarint(nil, uint64(n))
	b = append(b, 0, 0) // a literal of one byte
	for n--; n > 0; n -= min(n, 64) {
		b = append(b, byte(min(n, 64)-1)<<2|2, 1, 0)
	}
	return b
}

func drain(c Codec, src []byte, limit int64) (int64, error) {
	r, err := NewReader(c, src, limit)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	var n int64
	for {
		b, err := r.Peek(1)
		n += int64(len(b))
		r.Advance(len(b))
		if len(b) == 0 {
			if err == io.EOF {
				err = nil
			}
			return n, err
		}
	}
}

// TestLargeBlock decodes blocks over the whole-block size and compares with
// the library; far copies beyond the history are refused.
func TestLargeBlock(t *testing.T) {
	far, room := noise(1, 6<<20), make([]byte, snappyWhole+snappySlack)
	for name, src := range map[string][]byte{
		"zeros":   make([]byte, 12<<20),
		"repeats": bytes.Repeat(noise(1, 100_000), 200),
		"6 MiB":   append(append(bytes.Clone(far), noise(2, 1<<20)...), far...),
		"literal": noise(3, 10<<20),
	} {
		block := s2.EncodeSnappy(nil, src)
		if got, err := decompress(Snappy, block, 0); err != nil || !bytes.Equal(got, src) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(src), err)
		}
		if got, err := streamBlock(room, block); err != nil || !bytes.Equal(got, src) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(src), err)
		}
	}
	for _, whole := range [][]byte{
		s2.EncodeSnappy(nil, text(1, 70_000)), bareZeros(500),
		binary.LittleEndian.AppendUint32([]byte{8, 60 << 2, 3, 1, 2, 3, 4, 3<<2 | 3}, 2),
	} {
		if _, err := streamBlock(room, whole); err != nil {
			t.Errorf("block of %d bytes: %v", len(whole), err)
		}
		for n := 3; n < len(whole); n += 1 + n/100 {
			if _, err := streamBlock(room, whole[:n]); !errors.Is(err, errSnappyBlock) {
				t.Errorf("block of %d bytes cut to %d: %v", len(whole), n, err)
			}
		}
	}
	// A literal of 9 MiB and a copy from 8 MiB + 1 back.
	lit := 9 << 20
	b := binary.AppendUvarint(nil, uint64(lit+4))
	b = append(b, 62<<2, byte(lit-1&0xff), byte((lit-1)>>8&0xff), byte((lit-1)>>16))
	b = append(b, noise(1, lit)...)
	for off, ok := range map[uint32]bool{snappyWhole: true, snappyWhole + 1: false} {
		block := binary.LittleEndian.AppendUint32(append(bytes.Clone(b), 3<<2|3), off)
		want, err := s2.Decode(nil, block)
		if err != nil {
			t.Fatal(err)
		}
		got, err := streamBlock(room, block)
		if ok && (err != nil || !bytes.Equal(got, want)) || !ok && !errors.Is(err, errSnappyBlock) {
			t.Errorf("offset %d: %v", off, err)
		}
	}
}

func streamBlock(room, block []byte) ([]byte, error) {
	size, err := s2.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	var l largeBlock
	l.start(block, size, room)
	var got []byte
	for l.active() {
		b, err := l.more()
		if err != nil {
			return nil, err
		}
		got = append(got, b...)
	}
	return got, nil
}

func TestNames(t *testing.T) {
	for _, c := range all {
		got, err := Parse(c.String())
		if got != c || err != nil {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
	if c, err := Parse("uncompressed"); c != None || err != nil {
		t.Error(c, err)
	}
	if _, err := Parse("producer"); !errors.Is(err, ErrUnknownCodec) {
		t.Error(err)
	}
	if got := fmt.Sprint(Codec(6)); got != "codec(6)" {
		t.Error(got)
	}
}

func TestXXH32(t *testing.T) {
	for in, want := range map[string]uint32{
		"":    0x02cc5d05,
		"a":   0x550d7456,
		"abc": 0x32d153ff,
		"Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxh32([]byte(in)); got != want {
			t.Errorf("%q: %08x, want %08x", in, got, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, c := range all {
		b, _ := Compress(nil, c, 0, text(1, 300))
		f.Add(uint8(c), b)
	}
	for _, e := range otherEncoders {
		f.Add(uint8(e.codec), e.encode(text(2, 300)))
	}
	f.Fuzz(func(t *testing.T, c uint8, b []byte) {
		const limit = 1 << 20
		n, err := drain(Codec(c&7), b, limit)
		if err == nil && c&7 != 0 && n > limit {
			t.Fatalf("%d bytes passed the limit", n)
		}
		if err != nil && !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnknownCodec) {
			t.Fatalf("unnamed error %v", err)
		}
	})
}

// FuzzLargeBlock compares the streaming snappy decoder with the library.
func FuzzLargeBlock(f *testing.F) {
	f.Add(s2.EncodeSnappy(nil, text(1, 1000)))
	f.Add(bareZeros(1000))
	room := make([]byte, snappyWhole+snappySlack)
	f.Fuzz(func(t *testing.T, block []byte) {
		size, err := s2.DecodedLen(block)
		if err != nil || size > 1<<20 || size == 0 {
			return
		}
		want, werr := s2.Decode(nil, block)
		got, err := streamBlock(room, block)
		if err != nil {
			return // stricter: s2's own extensions are not snappy
		}
		if werr != nil || !bytes.Equal(got, want) {
			t.Fatalf("library %v; %d bytes, want %d", werr, len(got), len(want))
		}
	})
}

func BenchmarkReader(b *testing.B) {
	src := text(1, 1<<20)
	for _, c := range all[1:] {
		packed, err := Compress(nil, c, 0, src)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.String(), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := drain(c, packed, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkWriter(b *testing.B) {
	src := text(1, 1<<20)
	for _, c := range all[1:] {
		b.Run(c.String(), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst, _ = Compress(dst[:0], c, 0, src)
			}
		})
	}
}
