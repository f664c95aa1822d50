package compaction

import (
	"math/bits"

	"github.com/tidemark/tidemark/internal/model"
)

// SlotBytes is the memory that a key takes in an OffsetMap, whatever its length.
const SlotBytes = 24

// OffsetMap remembers the latest offset of each key, by the key's hash. It grows
// with what is in it up to a fixed number of bytes, and then refuses new keys.
type OffsetMap struct {
	secret Secret
	// shards are tables that grow one at a time, so that growing needs little
	// memory beside them. Their number is a power of two; a key's shard are the
	// uppermost bits of its hash.
	shards []table
	shift  uint
	// entries is how many keys there are, most how many there may be.
	entries, most int
	// latest is the offset up to which the map knows the log.
	latest model.Offset
}

// table is a hash table with open addresses.
type table struct {
	slots []slot
	used  int
	most  int // slots that it may grow to
}

// slot is one key. next is the offset behind its record, 0 for an empty slot.
type slot struct {
	h1, h2 uint64
	next   int64
}

const (
	// shardSlots is the least that is worth a shard of its own.
	shardSlots = 4096
	shardsMax  = 256
	slotsMin   = 16
	// A table grows when it is fuller than growAt/8.
	growAt = 6
)

// NewOffsetMap returns an empty map that takes at most about bytes of memory and
// is filled to at most the part load of it (log.cleaner.io.buffer.load.factor).
// It takes one key in any case.
func NewOffsetMap(bytes int64, load float64, secret Secret) *OffsetMap {
	slots := int(max(bytes/SlotBytes, 2))
	m := &OffsetMap{secret: secret, most: max(int(float64(slots)*min(load, 0.95)), 1), latest: model.NoOffset}
	n := 1
	for n < shardsMax && slots/(2*n) >= shardSlots {
		n *= 2
	}
	m.shards, m.shift = make([]table, n), uint(64-bits.TrailingZeros(uint(n)))
	for i := range m.shards {
		m.shards[i].most = slots / n
	}
	return m
}

// Len returns the number of keys.
func (m *OffsetMap) Len() int { return m.entries }

// Utilization returns how full the map is of what it may hold.
func (m *OffsetMap) Utilization() float64 { return float64(m.entries) / float64(m.most) }

// Bytes returns the memory of the tables.
func (m *OffsetMap) Bytes() int64 {
	n := 0
	for i := range m.shards {
		n += len(m.shards[i].slots)
	}
	return int64(n) * SlotBytes
}

// Latest is the offset up to which, inclusive, the map knows the log; NoOffset
// if it knows nothing of it. Nothing is known of what lies beyond.
func (m *OffsetMap) Latest() model.Offset { return m.latest }

// Reached says that the map knows the log up to o.
func (m *OffsetMap) Reached(o model.Offset) { m.latest = max(m.latest, o) }

// Put notes a record's offset, which is above that of every record before. It
// reports whether there was room.
func (m *OffsetMap) Put(key []byte, o model.Offset) bool { return m.put(m.hash(key, o)) }

func (m *OffsetMap) put(k hashed) bool {
	t := m.shard(k.h1)
	if s := t.find(k.h1, k.h2); s != nil && s.next != 0 {
		s.next = int64(k.offset) + 1
	} else if m.entries == m.most || !t.add(slot{k.h1, k.h2, int64(k.offset) + 1}) {
		return false
	} else {
		m.entries++
	}
	m.latest = max(m.latest, k.offset)
	return true
}

// Get returns the offset of the latest record of a key that Put has seen.
func (m *OffsetMap) Get(key []byte) (model.Offset, bool) { return m.get(m.hash(key, 0)) }

func (m *OffsetMap) get(k hashed) (model.Offset, bool) {
	s := m.shard(k.h1).find(k.h1, k.h2)
	if s == nil || s.next == 0 {
		return model.NoOffset, false
	}
	return model.Offset(s.next - 1), true
}

// hashed is a record's key, as the map knows it, and its offset.
type hashed struct {
	h1, h2 uint64
	offset model.Offset
}

func (m *OffsetMap) hash(key []byte, o model.Offset) hashed {
	h1, h2 := m.secret.sum(key)
	return hashed{h1, h2, o}
}

// warm reads the slots that keys hash to, and returns nothing of use. A large map
// is in no cache of the processor, and one look after another waits for memory
// each time; these reads don't depend on each other, so that many are under way
// at once, and the looks that follow find their slots near.
func (m *OffsetMap) warm(keys []hashed) (read int64) {
	for i := range keys {
		slots := m.shard(keys[i].h1).slots
		if len(slots) > 0 {
			at, _ := bits.Mul64(keys[i].h2, uint64(len(slots)))
			read ^= slots[at].next
		}
	}
	return read
}

// together is how many keys are warmed at a time: their slots must still be near
// when the last is looked at.
const together = 128

// shard returns the table of a hash. With one shard the shift leaves nothing.
func (m *OffsetMap) shard(h1 uint64) *table { return &m.shards[h1>>m.shift] }

// find returns the slot of a hash, or the empty one where it would stand; nil if
// the table is full and doesn't have it.
func (t *table) find(h1, h2 uint64) *slot {
	n := len(t.slots)
	if n == 0 {
		return nil
	}
	at, _ := bits.Mul64(h2, uint64(n))
	for i := int(at); ; {
		s := &t.slots[i]
		if s.next == 0 || s.h1 == h1 && s.h2 == h2 {
			return s
		}
		if i++; i == n {
			i = 0
		}
		if i == int(at) {
			return nil
		}
	}
}

// add enters a hash that is not there. It reports whether there was room.
func (t *table) add(s slot) bool {
	if t.used >= len(t.slots)*growAt/8 {
		t.grow()
	}
	free := t.find(s.h1, s.h2)
	if free == nil {
		return false
	}
	*free = s
	t.used++
	return true
}

// grow makes the table larger, if it may be.
func (t *table) grow() {
	n := min(max(2*len(t.slots), slotsMin), t.most)
	if n <= len(t.slots) {
		return
	}
	old := t.slots
	t.slots = make([]slot, n)
	for i := range old {
		if s := &old[i]; s.next != 0 {
			*t.find(s.h1, s.h2) = *s
		}
	}
}
