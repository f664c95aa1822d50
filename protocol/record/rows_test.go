package record

import (
	"bytes"
	"math"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/compress"
)

// rowCase is what a client may send for one partition, and how Validate must
// answer.
type rowCase struct {
	name  string
	in    []byte
	rules Rules
	code  int16 // 0: accepted
	early bool
	bad   []int32 // indexes of record errors
}

// rowCases holds a case for each row of Kafka's table of checks, and for pairs
// of faults that show the order in which they are reported. Timestamps that
// are just out of their bounds are so by past milliseconds.
func rowCases(now, past model.Timestamp) []rowCase {
	topic := func() Rules { return DefaultRules(now) }
	good := simple(3)
	zstd := build(Options{Codec: compress.Zstd}, 3)
	badCRC := func(b Batch) Batch { b = bytes.Clone(b); b[len(b)-1] ^= 1; return b }
	cat := func(bs ...[]byte) []byte { return bytes.Join(bs, nil) }
	magic := func(m byte) Batch { return edit(good, func(b Batch) { b[posMagic] = m }) }
	short := edit(good[:HeaderSize], func(b Batch) { put(b, posLength, 4, 30) })[:30+SizePrefix]
	small := topic()
	small.MaxBatchBytes = int32(len(good) - 1)
	old := topic()
	old.Version = 6
	compact := topic()
	compact.Compacted = true
	near := topic()
	near.BeforeMaxMs, near.AfterMaxMs = 60_000, 30_000
	appendTime := topic()
	appendTime.TimestampType = LogAppendTime
	nearCompact := near
	nearCompact.Compacted = true
	tight := topic()
	tight.DecompressedMax = 1000
	at := func(ts ...model.Timestamp) Batch {
		b := NewBuilder(Options{})
		for _, ts := range ts {
			b.Append(ts, []byte("k"), nil)
		}
		return b.Build()
	}
	noKey := func(ts model.Timestamp) Batch {
		b := NewBuilder(Options{Codec: compress.LZ4})
		b.Append(ts, []byte("k"), nil)
		b.Append(ts, nil, []byte("v"))
		b.Append(ts, []byte{}, []byte("v"))
		b.Append(ts, nil, nil)
		return b.Build()
	}
	field := func(pos, size int, v int64) Batch { return edit(good, func(b Batch) { put(b, pos, size, v) }) }

	return []rowCase{
		{"good", good, topic(), 0, false, nil},
		{"row 3: nothing", nil, topic(), CodeInvalidRecord, true, nil},
		{"row 3: eleven bytes", good[:11], topic(), CodeInvalidRecord, true, nil},
		{"row 3: cut in the header", good[:40], topic(), CodeInvalidRecord, true, nil},
		{"row 3: cut by one byte", good[:len(good)-1], topic(), CodeInvalidRecord, true, nil},
		{"row 3: magic 0", magic(0), topic(), CodeInvalidRecord, true, nil},
		{"row 3: magic 1", magic(1), topic(), CodeInvalidRecord, true, nil},
		{"row 3: two batches", cat(good, good), topic(), CodeInvalidRecord, true, nil},
		{"row 3 before 14: two bad batches", cat(badCRC(good), good), topic(), CodeInvalidRecord, true, nil},
		{"row 4: zstd", zstd, old, CodeUnsupportedCompressionType, true, nil},
		{"row 4: version 7", zstd, topic(), 0, false, nil},
		{"row 4 before the second batch", cat(zstd, zstd), old, CodeUnsupportedCompressionType, true, nil},
		{"row 3 before 4: magic 1", edit(zstd, func(b Batch) { b[posMagic] = 1 }), old, CodeInvalidRecord, true, nil},
		{"row 11: length 13", field(posLength, 4, 13), topic(), CodeCorruptMessage, true, nil},
		{"row 11: length -1", field(posLength, 4, -1), topic(), CodeCorruptMessage, true, nil},
		{"row 11: length -2^31", field(posLength, 4, math.MinInt32), topic(), CodeCorruptMessage, true, nil},
		{"row 11: length 13, only twelve bytes", field(posLength, 4, 13)[:12], topic(), CodeCorruptMessage, true, nil},
		{"length 2^31-1", field(posLength, 4, math.MaxInt32), topic(), CodeInvalidRecord, true, nil},
		{"row 11: magic 3", magic(3), topic(), CodeCorruptMessage, true, nil},
		{"row 11: magic -1", magic(0xff), topic(), CodeCorruptMessage, true, nil},
		{"row 11: magic 3 in a cut batch", magic(3)[:20], topic(), CodeCorruptMessage, true, nil},
		{"row 11: bad length behind", cat(good, make([]byte, 12)), topic(), CodeCorruptMessage, true, nil},
		{"row 11: bad magic behind", cat(good, magic(9)[:17]), topic(), CodeCorruptMessage, true, nil},
		{"row 12: base offset", field(posBaseOffset, 8, 1), topic(), CodeInvalidRecord, false, nil},
		{"row 12 before 13", field(posBaseOffset, 8, 1), small, CodeInvalidRecord, false, nil},
		{"row 12 before 14", badCRC(field(posBaseOffset, 8, -1)), topic(), CodeInvalidRecord, false, nil},
		{"row 13: size", good, small, CodeMessageTooLarge, false, nil},
		{"row 13 before 14", badCRC(good), small, CodeMessageTooLarge, false, nil},
		{"row 14: crc", badCRC(good), topic(), CodeCorruptMessage, false, nil},
		{"row 14: crc under LogAppendTime", badCRC(good), appendTime, CodeCorruptMessage, false, nil},
		{"row 14: size 42", short, topic(), CodeCorruptMessage, false, nil},
		{"row 14 before 18", badCRC(field(posCount, 4, 0)), topic(), CodeCorruptMessage, false, nil},
		{"row 15: a cut batch behind", cat(good, good[:len(good)-1]), topic(), 0, false, nil},
		{"row 15: bytes behind", cat(good, []byte("eleven byte")), topic(), 0, false, nil},
		{"row 15: a cut batch of magic 1 behind", cat(good, magic(1)[:17]), topic(), 0, false, nil},
		{"row 16: codec 5", field(posAttributes, 2, 5), topic(), CodeUnknownServerError, false, nil},
		{"row 16: codec 7", field(posAttributes, 2, 7), topic(), CodeUnknownServerError, false, nil},
		{"row 16 before 18", edit(field(posAttributes, 2, 6), func(b Batch) { put(b, posCount, 4, 0) }), topic(), CodeUnknownServerError, false, nil},
		{"row 18: no record", field(posCount, 4, 0), topic(), CodeInvalidRecord, false, nil},
		{"row 18: count -1", field(posCount, 4, -1), topic(), CodeInvalidRecord, false, nil},
		{"row 18: count 2^31-1", field(posCount, 4, math.MaxInt32), topic(), CodeInvalidRecord, false, nil},
		{"row 18: last offset delta -1", field(posLastOffsetDelta, 4, -1), topic(), CodeInvalidRecord, false, nil},
		{"row 18: last offset delta 3", field(posLastOffsetDelta, 4, 3), topic(), CodeInvalidRecord, false, nil},
		{"row 19: control", field(posAttributes, 2, bitControl), topic(), CodeInvalidRecord, false, nil},
		{"row 20: no sequence", field(posProducerID, 8, 0), topic(), CodeInvalidRecord, false, nil},
		{"row 20: sequence -2", edit(field(posProducerID, 8, 7), func(b Batch) { put(b, posBaseSequence, 4, -2) }), topic(), CodeInvalidRecord, false, nil},
		{"row 20: sequence without producer", field(posBaseSequence, 4, -2), topic(), 0, false, nil},
		{"transactional", build(Options{ProducerID: 4, Transactional: true}, 2), topic(), 0, false, nil},
		{"row 21: null key", noKey(5), compact, CodeInvalidRecord, false, []int32{1, 3}},
		{"row 21: null key elsewhere", noKey(5), topic(), 0, false, nil},
		{"row 21 before 22, in a record", noKey(5), nearCompact, CodeInvalidTimestamp, false, []int32{0, 1, 2, 3}},
		{"row 22: window", at(now-60_001+past, now, now+30_001-past, -1), near, 0, false, nil},
		{"row 22: too old", at(now, now-60_000-past, now), near, CodeInvalidTimestamp, false, []int32{1}},
		{"row 22: too new", at(now+30_000+past, now, now+30_000+past), near, CodeInvalidTimestamp, false, []int32{0, 2}},
		{"row 22: -2", at(-2), near, CodeInvalidTimestamp, false, []int32{0}},
		{"row 22: an hour ahead", at(now + DefaultAfterMaxMs + 1 - past), topic(), 0, false, nil},
		{"row 22: more than an hour ahead", at(now + DefaultAfterMaxMs + past), topic(), CodeInvalidTimestamp, false, []int32{0}},
		{"row 22: not under LogAppendTime", at(1, now+1<<40), appendTime, 0, false, nil},
		{"row 23: LogAppendTime batch", build(Options{TimestampType: LogAppendTime, AppendTime: now}, 2), topic(), CodeInvalidTimestamp, false, []int32{0, 1}},
		{"row 23: on a LogAppendTime topic", build(Options{TimestampType: LogAppendTime, AppendTime: now}, 1), appendTime, CodeInvalidTimestamp, false, []int32{0}},
		{"structure before 22", wrap(compress.None, 2, append(rec(0, 0, 0, 1, 1, 0), 2)), near, CodeInvalidRecord, false, nil},
		{"structure before 21", wrap(compress.Gzip, 1, append(rec(0, 0, 0, 1, 1, 0), 0)), compact, CodeInvalidRecord, false, nil},
		{"undecodable", edit(good, func(b Batch) { put(b, posAttributes, 2, 1) }), topic(), CodeInvalidRecord, false, nil},
		{"decompressed size", build(Options{Codec: compress.Gzip}, 500), tight, CodeMessageTooLarge, false, nil},
		{"decompressed size of an uncompressed batch", build(Options{}, 500), tight, 0, false, nil},
	}
}
