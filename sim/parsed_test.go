package sim

import (
	"bytes"
	"errors"
	"testing"
)

// A file that grew is read on where the last look ended; one that is shorter is
// the start of it; another address is another file; damage is told each time.
func TestParsesGoOn(t *testing.T) {
	batch := func(base byte, n int) []byte {
		var recs []outRecord
		for i := range n {
			recs = append(recs, outRecord{id: uint64(base)*10 + uint64(i), ts: 5, size: i})
		}
		b := appendBatch(nil, recs, -1, -1, -1)
		b[7] = base
		return b
	}
	first, second, third := batch(0, 2), batch(2, 1), batch(3, 3)
	file := make([]byte, 0, 4096)
	file = append(append(append(file, first...), second...), third...)
	two := len(first) + len(second)
	var p parses
	want := func(b []byte, batches, size int, malformed bool) {
		t.Helper()
		got, n, err := p.of(b)
		if len(got) != batches || n != size || malformed != (err != nil) {
			t.Errorf("%d bytes hold %d batches of %d bytes, %v; want %d of %d", len(b), len(got), n, err, batches, size)
		}
		pos := 0
		for i := range got {
			if got[i].pos != pos || len(got[i].recs) != int(got[i].count) || got[i].crc != storedCRC(b[pos:]) || !bytes.Equal(got[i].raw, b[pos:pos+got[i].size]) {
				t.Errorf("batch %d at %d is %+v", i, pos, got[i])
			}
			pos += got[i].size
		}
	}
	want(nil, 0, 0, false)
	want(file[:two-1], 1, len(first), false)
	want(file[:two], 2, two, false)
	want(file, 3, len(file), false)
	want(file[:two+70], 2, two, false)
	want(file[:two-1], 1, len(first), false)
	want(file[:3], 0, 0, false)
	want(file[len(first):], 2, len(file)-len(first), false)
	damaged := bytes.Clone(file)
	damaged[two+80] ^= 1
	want(damaged, 2, two, true)
	want(damaged, 2, two, true)
	for range 5 {
		p.looked()
	}
	if len(p.files) != 0 {
		t.Errorf("%d files are kept that nobody asks for", len(p.files))
	}
}

// Records are told up to the first that is malformed, then what is wrong.
func TestParsesTellMalformedRecords(t *testing.T) {
	b := appendBatch(nil, []outRecord{{id: 1}, {id: 2, size: 20}}, -1, -1, -1)
	b[len(b)-3] ^= 1 // padding of the second
	seal(b)
	var p parses
	got, n, err := p.of(b)
	if len(got) != 1 || n != len(b) || err != nil {
		t.Fatalf("%d batches, %d bytes, %v", len(got), n, err)
	}
	var ids []uint64
	bad := got[0].each(func(g gotRecord) error {
		ids = append(ids, g.id)
		return nil
	})
	if len(ids) != 1 || ids[0] != 1 || bad == nil {
		t.Errorf("records %v, then %v", ids, bad)
	}
	stop := errors.New("enough")
	if err := got[0].each(func(gotRecord) error { return stop }); err != stop {
		t.Errorf("each returned %v", err)
	}
}

// The padding of a record is what its rule says, byte by byte, and every byte of
// it counts.
func TestPadding(t *testing.T) {
	for _, id := range []uint64{1, 2, 77, 256, 1<<40 + 5} {
		for _, n := range []int{0, 1, 255, 256, 257, 700} {
			var want []byte
			for k := range n {
				want = append(want, byte(id*131+uint64(k)*paddingStep+3))
			}
			got := appendPadding(nil, id, n)
			if !bytes.Equal(got, want) || badPadding(want, id) != -1 {
				t.Fatalf("record %d, %d bytes: %v", id, n, got)
			}
			for k := range n {
				got[k]++
				if at := badPadding(got, id); at != k {
					t.Fatalf("record %d, %d bytes: byte %d is wrong, noticed is %d", id, n, k, at)
				}
				got[k]--
			}
		}
	}
}
