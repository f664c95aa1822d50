package metadata

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
)

func TestEntryRoundTrip(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		e := Entry{Time: -1 + 1<<40, Records: []Record{}}
		for range rng.IntN(5) {
			e.Records = append(e.Records, randomRecord(rng))
		}
		b := AppendEntry([]byte("prefix"), e)[6:]
		got, err := DecodeEntry(b)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !reflect.DeepEqual(e, got) {
			for i := range e.Records {
				t.Logf("%s\n%s", Format(e.Records[i]), Format(got.Records[i]))
			}
			t.Fatalf("seed %d: record changed", seed)
		}
		for cut := range b {
			if _, err := DecodeEntry(b[:cut]); err == nil {
				t.Fatalf("seed %d: %d of %d bytes were accepted", seed, cut, len(b))
			}
		}
		if _, err := DecodeEntry(append(b, 0)); err == nil {
			t.Fatalf("seed %d: a byte too many was accepted", seed)
		}
	}
}

// A longer body needs a longer length, which is put in front of it later.
func TestLongRecords(t *testing.T) {
	for _, n := range []int{100, 125, 126, 127, 128, 16000, 16384, 3 << 20} {
		v := string(make([]byte, n))
		e := Entry{Records: []Record{&ConfigRecord{Resource{TopicResource, "t"}, "k", &v}, &NoOp{}}}
		got, err := DecodeEntry(AppendEntry(nil, e))
		if err != nil || !reflect.DeepEqual(e, got) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

// TestNewerVersions: what a newer program wrote is refused, never skipped.
func TestNewerVersions(t *testing.T) {
	for name, b := range map[string][]byte{
		"frame":          {frameVersion + 1, 0, 0},
		"kind":           {frameVersion, 0, 1, 99, 0, 0},
		"record version": {frameVersion, 0, 1, byte(KindNoOp), recordVersion + 1, 0},
	} {
		if _, err := DecodeEntry(b); !errors.Is(err, ErrUnknownVersion) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHostileCounts: a count is believed only as far as the bytes can bear it.
func TestHostileCounts(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	b := append([]byte{frameVersion, 0}, huge...)
	if _, err := DecodeEntry(b); !errors.Is(err, ErrMalformed) {
		t.Fatal(err)
	}
	body := append([]byte{}, huge...)
	b = append([]byte{frameVersion, 0, 1, byte(KindVoters), 0, byte(len(body))}, body...)
	if _, err := DecodeEntry(b); !errors.Is(err, ErrMalformed) {
		t.Fatal(err)
	}
}

// FuzzDecodeEntry: no panic, and equal records have equal bytes: what is
// accepted encodes to what was read.
func FuzzDecodeEntry(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 40 {
		f.Add(AppendEntry(nil, Entry{Time: 7, Records: []Record{randomRecord(rng), randomRecord(rng)}}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEntry(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnknownVersion) {
				t.Fatalf("error without a class: %v", err)
			}
			return
		}
		if again := AppendEntry(nil, e); !bytes.Equal(again, b) {
			t.Fatalf("%x\nencodes to\n%x", b, again)
		}
		// Applying anything is an error or an image, never a panic.
		m, _, err := Apply(grow(2, 2), m0, e.Records)
		if err == nil && m.Hash() != rehash(m) {
			t.Fatalf("hash %s, recomputed %s", m.Hash(), rehash(m))
		}
	})
}

func FuzzReadSnapshot(f *testing.F) {
	h := SnapshotHeader{At: m0, Time: 9, ConfState: []byte{1, 2}, BootstrapHash: Hash{3}}
	f.Add(AppendSnapshot(nil, h, Empty()))
	f.Add(AppendSnapshot(nil, h, grow(2, 3)))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, m, err := ReadSnapshot(fixCRCs(b))
		if err != nil {
			return
		}
		h2, m2, err := ReadSnapshot(AppendSnapshot(nil, h, m))
		if err != nil || !reflect.DeepEqual(h, h2) || m2.Hash() != m.Hash() || m2.At() != m.At() {
			t.Fatalf("a snapshot that was read does not survive writing: %v", err)
		}
	})
}
