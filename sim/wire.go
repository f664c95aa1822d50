package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/tidemark/tidemark/protocol/compress"
)

// This is the clients' and checkers' own reading and writing of record batches
// (KIP-98), so that a mistake of the product's is not repeated here.

const (
	headerLen     = 61
	attrCodec     = 0x07
	attrLogAppend = 0x08
	attrTxn       = 0x10
	attrControl   = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batchHead is the header of a batch.
type batchHead struct {
	base, last int64
	size       int // bytes of the whole batch
	epoch      int32
	attrs      int16
	firstTS    int64
	maxTS      int64
	pid        int64
	pepoch     int16
	seq        int32
	count      int32
}

// outRecord is a record to be sent.
type outRecord struct {
	id   uint64
	ts   int64
	size int // of the padding
}

// appendBatch appends a batch of records.
func appendBatch(dst []byte, recs []outRecord, pid int64, pepoch int16, seq int32) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, headerLen)...)
	first, most := recs[0].ts, recs[0].ts
	var body []byte
	for i := range recs {
		most = max(most, recs[i].ts)
		body = append(body[:0], 0)
		body = binary.AppendVarint(body, recs[i].ts-first)
		body = binary.AppendVarint(body, int64(i))
		body = append(body, 1) // key: null
		body = binary.AppendVarint(body, int64(8+recs[i].size))
		body = binary.BigEndian.AppendUint64(body, recs[i].id)
		body = appendPadding(body, recs[i].id, recs[i].size)
		body = append(body, 0)
		dst = binary.AppendVarint(dst, int64(len(body)))
		dst = append(dst, body...)
	}
	h := dst[at:]
	binary.BigEndian.PutUint32(h[8:], uint32(len(h)-12))
	binary.BigEndian.PutUint32(h[12:], 0xffffffff)
	h[16] = 2
	binary.BigEndian.PutUint32(h[23:], uint32(len(recs)-1))
	binary.BigEndian.PutUint64(h[27:], uint64(first))
	binary.BigEndian.PutUint64(h[35:], uint64(most))
	binary.BigEndian.PutUint64(h[43:], uint64(pid))
	binary.BigEndian.PutUint16(h[51:], uint16(pepoch))
	binary.BigEndian.PutUint32(h[53:], uint32(seq))
	binary.BigEndian.PutUint32(h[57:], uint32(len(recs)))
	seal(h)
	return dst
}

// seal gives a batch the CRC of its bytes.
func seal(b []byte) { binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli)) }

// The bytes behind the id in a record's value go up by paddingStep, beginning
// with one that the id gives.
const paddingStep = 7

func paddingStart(id uint64) byte { return byte(id*131 + 3) }

// appendPadding appends n bytes of a record's padding.
func appendPadding(dst []byte, id uint64, n int) []byte {
	dst = slices.Grow(dst, n)
	for c := paddingStart(id); n > 0; n-- {
		dst = append(dst, c)
		c += paddingStep
	}
	return dst
}

// badPadding returns where a record's padding is not what was sent, -1 if it is.
func badPadding(b []byte, id uint64) int {
	c := paddingStart(id)
	for k := range b {
		if b[k] != c {
			return k
		}
		c += paddingStep
	}
	return -1
}

// errShort says that the bytes end inside a batch.
var errShort = errors.New("bytes end inside a batch")

// readHead reads and checks the batch at the start of b, CRC included.
func readHead(b []byte) (h batchHead, err error) {
	if len(b) < headerLen {
		return h, errShort
	}
	h.base = int64(binary.BigEndian.Uint64(b))
	n := int(int32(binary.BigEndian.Uint32(b[8:])))
	if n < headerLen-12 {
		return h, fmt.Errorf("batch at offset %d says it has %d bytes", h.base, n)
	}
	h.size = n + 12
	if len(b) < h.size {
		return h, errShort
	}
	h.epoch = int32(binary.BigEndian.Uint32(b[12:]))
	if b[16] != 2 {
		return h, fmt.Errorf("batch at offset %d has magic %d", h.base, b[16])
	}
	if want, got := storedCRC(b), crc32.Checksum(b[21:h.size], castagnoli); want != got {
		return h, fmt.Errorf("batch at offset %d has CRC %08x, its bytes %08x", h.base, want, got)
	}
	h.attrs = int16(binary.BigEndian.Uint16(b[21:]))
	h.last = h.base + int64(int32(binary.BigEndian.Uint32(b[23:])))
	h.firstTS = int64(binary.BigEndian.Uint64(b[27:]))
	h.maxTS = int64(binary.BigEndian.Uint64(b[35:]))
	h.pid = int64(binary.BigEndian.Uint64(b[43:]))
	h.pepoch = int16(binary.BigEndian.Uint16(b[51:]))
	h.seq = int32(binary.BigEndian.Uint32(b[53:]))
	h.count = int32(binary.BigEndian.Uint32(b[57:]))
	if h.last < h.base || int64(h.count) != h.last-h.base+1 {
		return h, fmt.Errorf("batch at offset %d to %d counts %d records", h.base, h.last, h.count)
	}
	return h, nil
}

// storedCRC is the CRC that a batch carries.
func storedCRC(b []byte) uint32 { return binary.BigEndian.Uint32(b[17:]) }

// gotRecord is a record as it was read.
type gotRecord struct {
	offset int64
	ts     int64
	id     uint64
}

// eachRecord calls fn with every record of the batch b, whose header is h, and
// checks that each value is one that some client wrote.
func eachRecord(h *batchHead, b []byte, fn func(gotRecord) error) error {
	body := b[headerLen:h.size]
	if codec := compress.Codec(h.attrs & attrCodec); codec != compress.None {
		r, err := compress.NewReader(codec, body, 64<<20)
		if err != nil {
			return err
		}
		body, err = io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	for i := range int64(h.count) {
		g, rest, err := readRecord(h, body)
		if err != nil {
			return fmt.Errorf("record %d of the batch at offset %d: %w", i, h.base, err)
		}
		if g.offset != h.base+i {
			return fmt.Errorf("record %d of the batch at offset %d is at %d", i, h.base, g.offset)
		}
		if err := fn(g); err != nil {
			return err
		}
		body = rest
	}
	if len(body) > 0 {
		return fmt.Errorf("batch at offset %d has %d bytes behind its records", h.base, len(body))
	}
	return nil
}

// coordinators marks the ids of records that no client wrote.
const coordinators = 1 << 63

var errRecord = errors.New("malformed record")

func readRecord(h *batchHead, b []byte) (g gotRecord, rest []byte, err error) {
	n, w := binary.Varint(b)
	if w <= 0 || n < 0 || int64(len(b)-w) < n {
		return g, nil, errRecord
	}
	rec, rest := b[w:w+int(n)], b[w+int(n):]
	if len(rec) < 1 {
		return g, nil, errRecord
	}
	var fields [3]int64 // timestamp delta, offset delta, key length
	body := rec[1:]
	for i := range fields {
		v, w := binary.Varint(body)
		if w <= 0 {
			return g, nil, errRecord
		}
		fields[i], body = v, body[w:]
	}
	g.ts = h.firstTS + fields[0]
	if h.attrs&attrLogAppend != 0 {
		g.ts = h.maxTS
	}
	g.offset = h.base + fields[1]
	if fields[2] >= 0 { // a coordinator's, known by what it says
		g.id = sum(rec) | coordinators
		return g, rest, nil
	}
	value, w := binary.Varint(body)
	if w <= 0 {
		return g, nil, errRecord
	}
	body = body[w:]
	if fields[2] != -1 || value < 8 || int64(len(body)) != value+1 {
		return g, nil, errRecord
	}
	g.id = binary.BigEndian.Uint64(body)
	if k := badPadding(body[8:value], g.id); k >= 0 {
		return g, nil, fmt.Errorf("value of record %d differs at byte %d from what was sent", g.id, 8+k)
	}
	return g, rest, nil
}

// eachBatch calls fn with the whole batches at the start of b and returns how
// many bytes they take. A batch that is cut ends it; a malformed one is an
// error.
func eachBatch(b []byte, fn func(h *batchHead, raw []byte) error) (n int, err error) {
	for n < len(b) {
		h, err := readHead(b[n:])
		if errors.Is(err, errShort) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if err := fn(&h, b[n:n+h.size]); err != nil {
			return n, err
		}
		n += h.size
	}
	return n, nil
}
