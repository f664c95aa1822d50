package scrub

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/tidemark/tidemark/internal/model"
)

// The file: magic "TMV1", then for each segment that was verified its topic id (16
// bytes), partition (int32), base offset, size and time of verification (int64
// each), then a CRC-32C of all before it. Big-endian. See
// docs/formats/log-directory.md.
const (
	magic     = "TMV1"
	entrySize = 16 + 4 + 3*8
)

// ErrNoBook says that bytes are not those of a Book.
var ErrNoBook = errors.New("not a list of verified segments")

// Changed reports whether there is anything that Marshal has not returned yet.
func (b *Book) Changed() bool { return b.changed }

// Marshal returns the content of the file.
func (b *Book) Marshal() []byte {
	keys := make([]Key, 0, len(b.entries))
	for k, e := range b.entries { // order-free: sorted below
		if e.verified > 0 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, Key.compare)
	be := binary.BigEndian
	out := append(make([]byte, 0, len(magic)+len(keys)*entrySize+4), magic...)
	for _, k := range keys {
		e := b.entries[k]
		out = append(out, k.Replica.TopicID[:]...)
		out = be.AppendUint32(out, uint32(k.Replica.Partition))
		out = be.AppendUint64(out, uint64(k.Base))
		out = be.AppendUint64(out, uint64(e.size))
		out = be.AppendUint64(out, uint64(e.verified))
	}
	b.changed = false
	return be.AppendUint32(out, crc(out))
}

// Unmarshal takes the content of the file in, of segments that nothing is known of.
// The error is ErrNoBook, and then nothing was changed.
func (b *Book) Unmarshal(text []byte, now model.Timestamp) error {
	n := len(text) - len(magic) - 4
	if n < 0 || n%entrySize != 0 || string(text[:len(magic)]) != magic {
		return fmt.Errorf("%d bytes: %w", len(text), ErrNoBook)
	}
	be := binary.BigEndian
	body := text[:len(text)-4]
	if be.Uint32(text[len(body):]) != crc(body) {
		return fmt.Errorf("its checksum is wrong: %w", ErrNoBook)
	}
	if b.entries == nil {
		b.entries = make(map[Key]entry, n/entrySize)
	}
	for p := body[len(magic):]; len(p) > 0; p = p[entrySize:] {
		k := Key{
			Replica: model.TopicIDPartition{TopicID: model.TopicID(p[:16]), Partition: int32(be.Uint32(p[16:]))},
			Base:    model.Offset(be.Uint64(p[20:])),
		}
		if _, known := b.entries[k]; known {
			continue
		}
		at := model.Timestamp(be.Uint64(p[36:]))
		if at <= 0 || at > now {
			continue // another clock's
		}
		b.entries[k] = entry{size: int64(be.Uint64(p[28:])), seen: at, verified: at}
	}
	return nil
}

func crc(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
