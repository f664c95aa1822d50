package record

import (
	"fmt"
	"hash/crc32"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/compress"
)

// Validate checks what a Produce request brings for one partition and returns
// the one batch in it, ready to be stamped. Checks are made, and so errors
// reported, in Kafka's order; a nil *Rejection means the batch is good.
//
// The batch aliases records, whose header it may patch: a CreateTime batch
// with a wrong maxTimestamp gets the right one and a new CRC. It is rebuilt in
// memory of its own if the topic asks for another codec or if an offset delta
// is not the record's index. Uncompressed batches cost no allocation.
//
// Apache Kafka 4.3.1 was asked each case of the tests and differs in what the
// table "differences" beside them lists. Foremost: it stores wrong offset deltas of uncompressed
// batches as sent, so that readers meet offsets outside the batch, and fails
// with UNKNOWN_SERVER_ERROR on those of compressed ones; here both are put
// right. And it has no bound on what a batch decompresses to. Of single records
// it takes some that are malformed; here they are INVALID_RECORD.
func Validate(records []byte, r *Rules) (Prepared, *Rejection) {
	b, rej := onlyBatch(records, r)
	if rej != nil {
		return Prepared{}, rej
	}
	p := Prepared{Batch: b}
	if rej := p.checkBytes(r); rej != nil {
		return Prepared{}, rej
	}
	if rej := checkFields(b); rej != nil {
		return Prepared{}, rej
	}
	s := newScan(b, r)
	if rej := s.run(b, r); rej != nil {
		return Prepared{}, rej
	}
	p.Records = s.n
	if s.wrongDeltas || r.target(b) != b.Codec() {
		return rebuild(b, r, &s)
	}
	if r.TimestampType == CreateTime && b.MaxTimestamp() != model.Timestamp(s.max) {
		b.setMaxTimestamp(model.Timestamp(s.max))
		b.setCRC()
	}
	return p, nil
}

func reject(code int16, format string, args ...any) *Rejection {
	return &Rejection{Code: code, Message: fmt.Sprintf(format, args...)}
}

func early(code int16, format string, args ...any) *Rejection {
	r := reject(code, format, args...)
	r.Early = true
	return r
}

// legacyMin is the least that a batch's length field may say: the overhead of
// a message of magic 0, the smallest of all formats.
const legacyMin = 14

// onlyBatch makes the checks that come before the partition is asked: there is
// exactly one whole batch, and the request's version may carry it. Less than a
// batch behind it is cut off without a word.
func onlyBatch(set []byte, r *Rules) (Batch, *Rejection) {
	size, whole, rej := nextSize(set)
	switch {
	case rej != nil:
		return nil, rej
	case !whole:
		return nil, early(CodeInvalidRecord, "%d bytes of records hold no whole batch", len(set))
	}
	b, rest := Batch(set[:size:size]), set[size:]
	if b.Magic() != Magic {
		return nil, early(CodeInvalidRecord, "batch of magic %d, only magic %d may be produced", b.Magic(), Magic)
	}
	if r.Version < 7 && b.Codec() == compress.Zstd {
		return nil, early(CodeUnsupportedCompressionType, "zstd needs Produce version 7, this is version %d", r.Version)
	}
	_, whole, rej = nextSize(rest)
	switch {
	case rej != nil:
		return nil, rej
	case whole:
		return nil, early(CodeInvalidRecord, "more than one batch for a partition")
	}
	return b, nil
}

// nextSize looks at the batch that set begins with and reports its size and
// whether all of it is there.
func nextSize(set []byte) (size int, whole bool, rej *Rejection) {
	if len(set) < SizePrefix {
		return 0, false, nil
	}
	n := SizeOf(set)
	if n < SizePrefix+legacyMin {
		return 0, false, early(CodeCorruptMessage, "batch length %d is less than the least overhead %d", n-SizePrefix, legacyMin)
	}
	if len(set) < MagicPrefix {
		return 0, false, nil
	}
	if m := int8(set[posMagic]); m < 0 || m > Magic {
		return 0, false, early(CodeCorruptMessage, "magic %d doesn't exist", m)
	}
	return int(n), n <= int64(len(set)), nil
}

// checkBytes checks what can be said of the batch as bytes: its base offset,
// size and CRC. Under LogAppendTime it keeps the CRC of the part that stamping
// won't change.
func (p *Prepared) checkBytes(r *Rules) *Rejection {
	b := p.Batch
	if o := b.BaseOffset(); o != 0 {
		return reject(CodeInvalidRecord, "base offset of a produced batch is %d, want 0", o)
	}
	if r.tooLarge(len(b)) {
		return reject(CodeMessageTooLarge, "batch of %d bytes, the limit is %d", len(b), r.MaxBatchBytes)
	}
	if len(b) < HeaderSize {
		return reject(CodeCorruptMessage, "batch of %d bytes, a header has %d", len(b), HeaderSize)
	}
	var sum uint32
	if r.TimestampType == LogAppendTime {
		p.hashTail()
		sum = crcCombine(b.headCRC(), p.tailCRC, p.tailShift)
	} else {
		sum = b.ComputeCRC()
	}
	if sum != b.CRC() {
		return reject(CodeCorruptMessage, "crc is %08x, bytes hash to %08x", b.CRC(), sum)
	}
	return nil
}

// posTail is where the bytes begin that StampAppendTime doesn't change.
const posTail = posProducerID

func (p *Prepared) hashTail() {
	tail := p.Batch[posTail:]
	p.tailCRC = crc32.Checksum(tail, castagnoli)
	p.tailShift = crcShift(len(tail))
}

// headCRC hashes the bytes between the CRC and the tail.
func (b Batch) headCRC() uint32 { return crc32.Checksum(b[posAttributes:posTail], castagnoli) }

// checkFields checks the header of a batch whose CRC is right.
func checkFields(b Batch) *Rejection {
	offsets, count := int64(b.LastOffsetDelta())+1, int64(b.Count())
	switch {
	case !b.Codec().Valid():
		// Kafka has no better code for it.
		return reject(CodeUnknownServerError, "codec %d doesn't exist", uint8(b.Codec()))
	case offsets <= 0:
		return reject(CodeInvalidRecord, "last offset delta %d is negative", b.LastOffsetDelta())
	case count <= 0:
		return reject(CodeInvalidRecord, "record count is %d", count)
	case offsets != count:
		return reject(CodeInvalidRecord, "%d records in %d offsets", count, offsets)
	case b.IsControl():
		return reject(CodeInvalidRecord, "clients may not write control records")
	case b.HasProducerID() && b.BaseSequence() < 0:
		return reject(CodeInvalidRecord, "sequence %d from producer id %d", b.BaseSequence(), b.ProducerID())
	}
	return nil
}

// run walks all records of b.
func (s *scan) run(b Batch, r *Rules) *Rejection {
	var err error
	if b.Codec() == compress.None {
		used, why := s.slice(b.Records())
		switch {
		case why != "":
		case s.n < s.count:
			why = whyEnd
		case used < len(b.Records()):
			why = whyTrailing
		}
		if why != "" {
			err = &CorruptError{Why: why}
		}
	} else {
		err = s.decompress(b, r.decompressedMax())
	}
	switch {
	case isTooLarge(err):
		return reject(CodeMessageTooLarge, "%s batch of %d bytes decompresses to more than %d bytes, the most that is taken",
			b.Codec(), len(b), r.decompressedMax())
	case err != nil:
		return reject(CodeInvalidRecord, "record %d of %d: %v", s.n, s.count, err)
	}
	return s.rejection()
}

func (s *scan) decompress(b Batch, limit int64) error {
	in, err := compress.NewReader(b.Codec(), b.Records(), limit)
	if err != nil {
		return err
	}
	defer in.Close()
	return s.stream(in)
}

// rejection is nil or reports the records that have problems. One bad record
// rejects them all.
func (s *scan) rejection() *Rejection {
	if s.refused == 0 {
		return nil
	}
	code := CodeInvalidRecord
	if s.timestamp {
		code = CodeInvalidTimestamp
	}
	rej := reject(code, "%d of %d records are refused, first record %d: %s",
		s.refused, s.count, s.problems[0].Index, s.problems[0].Message)
	rej.Records = s.problems
	return rej
}
