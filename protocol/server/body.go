package server

import (
	"encoding/binary"
	"os"
	"sync"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// Region is a run of bytes in a segment file that can be read until Release.
// log.Region is one.
type Region interface {
	Len() int
	ReadAt(p []byte, off int64) (int, error)
	// OSFile returns the file and the position the region begins at, if it is
	// a file of the operating system, so that it can be sent without reading it.
	OSFile() (f *os.File, pos int64, ok bool)
	Release()
}

// FetchBody is a Fetch answer in the making: the encoded fields, and the
// regions whose bytes go between them. Get one from NewFetchBody, fill it with
// Begin, Topic, Partition and End in that order, and give it away with
// Request.ReplyFetch, which releases the regions once they are sent or can't be;
// or with Discard.
type FetchBody struct {
	// Owner is told when the regions are released; may be nil.
	Owner Owner

	enc     protocol.FetchEncoder
	regions []Region // one for each of the encoder's cuts
	version int16
	codes   []protocol.Code // of errors, in the answer
}

// Owner holds the regions of a FetchBody and may reuse their memory once they
// are released.
type Owner interface{ Recycle() }

var fetchBodies = sync.Pool{New: func() any { return new(FetchBody) }}

// fetchPrefix is the length of frame size and response header of a version.
func fetchPrefix(version int16) int {
	api, _ := protocol.Lookup(protocol.KeyFetch)
	if version >= api.Flexible {
		return protocol.FrameSizeLen + 4 + 1
	}
	return protocol.FrameSizeLen + 4
}

// NewFetchBody returns an empty body from the pool.
func NewFetchBody() *FetchBody { return fetchBodies.Get().(*FetchBody) }

// Begin starts the answer; see protocol.FetchEncoder.
func (b *FetchBody) Begin(version int16, h protocol.FetchHead) {
	b.version, b.codes = version, b.codes[:0]
	b.noteCode(h.Code)
	b.enc.Begin(version, fetchPrefix(version), h)
}

// Topic starts a topic of so many partitions; versions up to 12 send the name.
func (b *FetchBody) Topic(name string, id model.TopicID, partitions int) {
	b.enc.Topic(name, id, partitions)
}

// Partition adds a partition and takes over its records; nil means none.
func (b *FetchBody) Partition(p *protocol.FetchPartition, records Region) {
	n := 0
	if records != nil {
		n = records.Len()
	}
	b.noteCode(p.Code)
	b.enc.Partition(p, n)
	switch {
	case n > 0:
		b.regions = append(b.regions, records)
	case records != nil:
		records.Release()
	}
}

func (b *FetchBody) noteCode(code protocol.Code) {
	if code != protocol.CodeNone {
		b.codes = append(b.codes, code)
	}
}

// End finishes the answer; endpoints name the brokers of leader hints.
func (b *FetchBody) End(endpoints []protocol.NodeEndpoint) { b.enc.End(endpoints) }

// Size returns the length of the answer as it will be sent.
func (b *FetchBody) Size() int { return b.enc.Size() }

// Discard releases the regions and gives the body back to the pool.
func (b *FetchBody) Discard() {
	for i, r := range b.regions {
		r.Release()
		b.regions[i] = nil
	}
	b.regions = b.regions[:0]
	owner := b.Owner
	b.Owner = nil
	fetchBodies.Put(b)
	if owner != nil {
		owner.Recycle()
	}
}

// seal writes the frame size and the response header into the room that Begin
// left for them.
func (b *FetchBody) seal(correlationID int32) {
	buf := b.enc.Bytes()
	binary.BigEndian.PutUint32(buf, uint32(b.enc.Size()-protocol.FrameSizeLen))
	protocol.AppendResponseHeader(buf[:protocol.FrameSizeLen], protocol.KeyFetch, b.version, correlationID)
}
