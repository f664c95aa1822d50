package integration

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// Replicas of a compacted partition: each cleans its own copy when it likes, so
// that bytes may differ, but not what is newest of a key.

// storedRecord is a record as it lies in a batch that is not compressed.
type storedRecord struct {
	offset     int64
	key, value []byte // nil is null
}

var errCutShort = errors.New("a record is cut short")

// records parses a batch; a control batch has none.
func (b storedBatch) records() (all []storedRecord, err error) {
	attributes := binary.BigEndian.Uint16(b.bytes[21:])
	if attributes&7 != 0 {
		return nil, fmt.Errorf("the batch of offset %d is compressed", b.base)
	}
	if attributes&0x20 != 0 {
		return nil, nil
	}
	rest := b.bytes[batchOverhead:]
	varint := func() int64 {
		v, n := binary.Varint(rest)
		if n <= 0 {
			err = errCutShort
			return 0
		}
		rest = rest[n:]
		return v
	}
	take := func() []byte {
		n := varint()
		if n < 0 || err != nil {
			return nil
		}
		if int64(len(rest)) < n {
			err = errCutShort
			return nil
		}
		x := rest[:n:n]
		rest = rest[n:]
		return x
	}
	for range binary.BigEndian.Uint32(b.bytes[57:]) {
		whole := take()
		if err != nil || len(whole) < 1 {
			return nil, errCutShort
		}
		after := rest
		rest = whole[1:] // attributes
		varint()         // timestamp
		r := storedRecord{offset: b.base + varint(), key: take(), value: take()}
		if err != nil {
			return nil, err
		}
		rest, all = after, append(all, r)
	}
	return all, nil
}

// newest is the last record of each key.
func (r *replica) newest() (map[string]storedRecord, error) {
	last := map[string]storedRecord{}
	for _, b := range r.batches {
		records, err := b.records()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		for _, x := range records {
			last[string(x.key)] = x
		}
	}
	return last, nil
}

// holes counts the offsets without a record.
func (r *replica) holes() int {
	n := int(r.end() - r.logStart)
	for _, b := range r.batches {
		n -= int(binary.BigEndian.Uint32(b.bytes[57:]))
	}
	return n
}

// compareNewest says where copies differ in the newest record of a key, of those
// below the least of high watermarks and ends.
func compareNewest(copies []*replica) error {
	high := int64(1) << 62
	for _, r := range copies {
		high = min(high, r.end())
		if r.hw >= 0 {
			high = min(high, r.hw)
		}
	}
	var all []map[string]storedRecord
	for _, r := range copies {
		last, err := r.newest()
		if err != nil {
			return err
		}
		all = append(all, last)
	}
	for i, mine := range all {
		for key, x := range mine {
			if x.offset >= high {
				continue
			}
			for j, theirs := range all {
				y, ok := theirs[key]
				if ok && y.offset >= high {
					continue // newer ones are not there everywhere yet
				}
				if !ok || y.offset != x.offset || !bytes.Equal(y.value, x.value) {
					return fmt.Errorf("the newest of key %q is %q at %d in %s, and %q at %d (%v) in %s", key, x.value, x.offset, copies[i].name, y.value, y.offset, ok, copies[j].name)
				}
			}
		}
	}
	return nil
}

// keyed writes a batch of records by hand.
func keyed(base int64, count int, pairs ...string) storedBatch {
	b := hand(base, 0, "")[:batchOverhead]
	for i := 0; i < len(pairs); i += 2 {
		body := []byte{0, 0}
		body = binary.AppendVarint(body, int64(count-len(pairs)/2+i/2))
		for _, s := range pairs[i : i+2] {
			body = append(binary.AppendVarint(body, int64(len(s))), s...)
		}
		body = append(body, 0)
		b = append(binary.AppendVarint(b, int64(len(body))), body...)
	}
	binary.BigEndian.PutUint32(b[57:], uint32(len(pairs)/2))
	return storedBatch{base: base, last: base + int64(count) - 1, bytes: b}
}

// TestNewestOfKeysAreCompared: what was cleaned is the same as what was not, and
// any other newest record is found.
func TestNewestOfKeysAreCompared(t *testing.T) {
	copyOf := func(hw int64, batches ...storedBatch) *replica {
		return &replica{name: "copy", hw: hw, batches: slices.Clone(batches)}
	}
	ab, a2 := keyed(0, 2, "a", "1", "b", "1"), keyed(2, 1, "a", "2")
	whole := copyOf(3, ab, a2)
	if last, err := whole.newest(); err != nil || len(last) != 2 || string(last["a"].value) != "2" || last["b"].offset != 1 {
		t.Fatalf("read %+v, %v", last, err)
	}
	for _, c := range []struct {
		name  string
		copy  *replica
		equal bool
	}{
		{"cleaned", copyOf(3, keyed(0, 2, "b", "1"), a2), true},
		{"shorter", copyOf(2, ab), true},
		{"lost the newest", copyOf(3, keyed(0, 2, "b", "1"), keyed(2, 1, "c", "3")), false},
		{"lost a key", copyOf(3, keyed(0, 2, "a", "1"), a2), false},
		{"another value", copyOf(3, ab, keyed(2, 1, "a", "3")), false},
	} {
		if err := compareNewest([]*replica{whole, c.copy}); (err == nil) != c.equal {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
