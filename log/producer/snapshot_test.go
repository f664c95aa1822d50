package producer

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
)

// golden are snapshots laid out by hand from the format, their CRCs computed
// bit by bit by another program.
var golden = []struct {
	name  string
	hex   string
	build func() *StateManager
}{
	{"empty", "000148674bc700000000", New},
	{"a producer with batches, and one with a marker only",
		"000127c3013100000002" +
			"000000000000000700030000000c000000000000006c000000040000018bcfe56800ffffffffffffffffffffffff" +
			"0000000000000fa00000ffffffffffffffffffffffff000000000000018bcfe5680500000002ffffffffffffffff",
		func() *StateManager {
			m := New()
			marker := end(4000, 0, 100, true, 2)
			marker.ts = 1700000000005
			m.Update(marker.batch())
			early := data(7, 3, 0, 101, 3)
			m.Update(early.batch())
			last := data(7, 3, 8, 104, 5)
			last.ts = 1700000000000
			m.Update(last.batch())
			return m
		}},
	{"an open transaction across the wrap of sequences",
		"00011f41433900000001" +
			"00000000000000090001000000010000000000000014000000020000000000000005000000000000000000000012",
		func() *StateManager {
			m := New()
			m.Update(end(9, 1, 17, true, 0).batch())
			b := inTxn(9, 1, 2147483647, 18, 3)
			b.ts = 5
			m.Update(b.batch())
			return m
		}},
}

func TestSnapshotGolden(t *testing.T) {
	for _, g := range golden {
		want, err := hex.DecodeString(g.hex)
		if err != nil {
			t.Fatal(err)
		}
		m := g.build()
		if got := m.Marshal(nil); !bytes.Equal(got, want) {
			t.Errorf("%s:\ngot  %x\nwant %x", g.name, got, want)
			continue
		}
		if got := m.Marshal([]byte("prefix")); !bytes.Equal(got, append([]byte("prefix"), want...)) {
			t.Errorf("%s: marshal behind other bytes: %x", g.name, got)
		}
		back := New()
		back.Reset(m.MapEnd())
		if err := back.Unmarshal(want); err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		sameAfterRestart(t, g.name, m, back)
		if got := back.Marshal(nil); !bytes.Equal(got, want) {
			t.Errorf("%s: marshalled again:\ngot  %x\nwant %x", g.name, got, want)
		}
	}
}

// sameAfterRestart checks that b is a after a restart from a snapshot and the
// log behind it: all the same, but for older batches, which may be missing,
// and transactions that a marker has ended, which may count as stable.
func sameAfterRestart(t *testing.T, what string, a, b *StateManager) {
	t.Helper()
	if a.Len() != b.Len() || a.MapEnd() != b.MapEnd() {
		t.Fatalf("%s: %d producers to %d, %d producers to %d", what, a.Len(), a.MapEnd(), b.Len(), b.MapEnd())
	}
	a.Each(func(x *Entry) {
		y, ok := b.Lookup(x.ProducerID)
		if !ok {
			t.Fatalf("%s: producer %d is missing", what, x.ProducerID)
		}
		if y.Epoch != x.Epoch || y.CoordinatorEpoch != x.CoordinatorEpoch || y.TxnFirstOffset != x.TxnFirstOffset ||
			y.LastTimestamp != x.LastTimestamp || y.LastSeq() != x.LastSeq() || y.LastOffset() != x.LastOffset() {
			t.Fatalf("%s: %+v, want %+v", what, y, *x)
		}
		bx, by := x.Batches(), y.Batches()
		if len(by) > len(bx) || (len(by) == 0) != (len(bx) == 0) {
			t.Fatalf("%s: batches %v, want the last of %v", what, by, bx)
		}
		for i, m := range bx[len(bx)-len(by):] {
			m.Timestamp = by[i].Timestamp // the snapshot has the entry's
			if by[i] != m {
				t.Fatalf("%s: batches %v, want the last of %v", what, by, bx)
			}
		}
	})
	oa, _ := a.FirstUndecided()
	ob, _ := b.FirstUndecided()
	if oa != ob {
		t.Fatalf("%s: first undecided %d, want %d", what, ob, oa)
	}
}

func TestUnmarshalKnowsTheLastBatchAsDuplicate(t *testing.T) {
	m := New()
	play(t, m, []step{
		{"one", data(1, 0, 0, 0, 5), OK, 0},
		{"two", data(1, 0, 5, 5, 5), OK, 0},
	})
	back := New()
	back.Reset(10)
	if err := back.Unmarshal(m.Marshal(nil)); err != nil {
		t.Fatal(err)
	}
	play(t, back, []step{
		{"the last is known", data(1, 0, 5, 10, 5), Duplicate, 5},
		{"the one before is not", data(1, 0, 0, 10, 5), OutOfOrder, 0},
		{"the next is in order", data(1, 0, 10, 10, 1), OK, 0},
	})
}

func TestUnmarshalKeepsTransactionsSorted(t *testing.T) {
	m := New()
	m.Update(inTxn(9, 0, 0, 3, 1).batch())
	m.Update(inTxn(5, 0, 0, 4, 1).batch())
	m.Update(inTxn(7, 0, 0, 5, 1).batch())
	back := New()
	if err := back.Unmarshal(m.Marshal(nil)); err != nil {
		t.Fatal(err)
	}
	wantUnstable(t, back, "restored", 3)
	back.Update(end(9, 0, 6, true, 0).batch())
	back.AdvanceHighWatermark(7)
	wantUnstable(t, back, "first ended", 4)
}

// sealed returns a snapshot of one entry with bytes changed and the CRC right.
func sealed(change func(b []byte)) []byte {
	m := New()
	m.Update(inTxn(7, 3, 10, 100, 5).batch())
	b := m.Marshal(nil)
	change(b)
	binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], castagnoli))
	return b
}

func TestUnmarshalRefuses(t *testing.T) {
	be := binary.BigEndian
	good := sealed(func([]byte) {})
	flipped := slices.Clone(good)
	flipped[20] ^= 1
	two := sealed(func(b []byte) { be.PutUint32(b[6:], 2) })
	two = append(two, two[10:]...)
	be.PutUint32(two[2:], crc32.Checksum(two[6:], castagnoli))
	trailing := append(slices.Clone(good), 0)
	be.PutUint32(trailing[2:], crc32.Checksum(trailing[6:], castagnoli))
	for _, tc := range []struct {
		name string
		b    []byte
		pos  int
		want string
	}{
		{"nothing", nil, 0, "0 bytes"},
		{"half a header", good[:9], 0, "9 bytes"},
		{"version", sealed(func(b []byte) { b[1] = 2 }), 0, "version 2, want 1"},
		{"a flipped bit", flipped, 2, "crc is"},
		{"cut", good[:len(good)-1], 2, "crc is"},
		{"trailing bytes", trailing, 6, "1 entries of 46 bytes in 47 bytes"},
		{"too many entries", sealed(func(b []byte) { be.PutUint32(b[6:], 2) }), 6, "2 entries of 46 bytes in 46 bytes"},
		{"billions of entries", sealed(func(b []byte) { be.PutUint32(b[6:], 1<<31-1) }), 6, "2147483647 entries"},
		{"minus one entry", sealed(func(b []byte) { be.PutUint32(b[6:], 1<<32-1) }), 6, "-1 entries"},
		{"no entry, but bytes", sealed(func(b []byte) { be.PutUint32(b[6:], 0) }), 6, "0 entries"},
		{"negative id", sealed(func(b []byte) { b[10] = 0xFF }), 10, "is negative"},
		{"negative epoch", sealed(func(b []byte) { b[18] = 0xF0 }), 18, "epoch"},
		{"negative sequence", sealed(func(b []byte) { b[20] = 0xF0 }), 20, "last sequence"},
		{"negative offset", sealed(func(b []byte) { b[24] = 0xF0 }), 24, "last offset"},
		{"negative delta", sealed(func(b []byte) { b[32] = 0xF0 }), 32, "offset delta"},
		{"delta beyond the offset", sealed(func(b []byte) { be.PutUint32(b[32:], 105) }), 32, "offset delta 105"},
		{"negative begin", sealed(func(b []byte) { b[48] = 0xF0 }), 48, "transaction"},
		{"twice the same", two, 56, "listed twice"},
	} {
		m := New()
		m.Update(data(1, 0, 0, 0, 1).batch())
		before := m.Marshal(nil)
		err := m.Unmarshal(tc.b)
		var bad *SnapshotError
		if !errors.As(err, &bad) || bad.Pos != tc.pos || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q at %d", tc.name, err, tc.want, tc.pos)
		}
		if !bytes.Equal(m.Marshal(nil), before) || m.MapEnd() != 1 {
			t.Errorf("%s: the state changed", tc.name)
		}
	}
}

func TestEachIsSorted(t *testing.T) {
	m := New()
	for i, id := range []model.ProducerID{5, 1, 9, 3} {
		m.Update(data(id, 0, 0, model.Offset(i), 1).batch())
	}
	var ids []model.ProducerID
	m.Each(func(e *Entry) { ids = append(ids, e.ProducerID) })
	if !slices.Equal(ids, []model.ProducerID{1, 3, 5, 9}) {
		t.Errorf("%v", ids)
	}
}

// FuzzUnmarshal: no panic, no memory beyond the input's size, and what is
// accepted is written back as it was, entries sorted by id.
func FuzzUnmarshal(f *testing.F) {
	for _, g := range golden {
		b, _ := hex.DecodeString(g.hex)
		f.Add(b, true)
	}
	f.Add([]byte{}, false)
	f.Add(sealed(func(b []byte) { binary.BigEndian.PutUint32(b[6:], 1<<31-1) }), true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		b = slices.Clone(b)
		if seal && len(b) >= snapshotHeaderSize {
			binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], castagnoli))
		}
		m := New()
		if err := m.Unmarshal(b); err != nil {
			if m.Len() != 0 {
				t.Fatal("an error, and producers")
			}
			return
		}
		out := m.Marshal(nil)
		if len(out) != len(b) {
			t.Fatalf("%d bytes became %d", len(b), len(out))
		}
		again := New()
		if err := again.Unmarshal(out); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Marshal(nil), out) {
			t.Fatal("not stable")
		}
		m.Expire(0, 1)
		m.AdvanceHighWatermark(1 << 40)
		m.FirstUnstable()
	})
}
