package salvage

import (
	"slices"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/protocol/record"
)

// Committed knows which transactions were committed, as far as their markers
// survived.
type Committed struct {
	spans map[model.ProducerID][]span
}

// span is one transaction: its first record and its marker.
type span struct{ first, last model.Offset }

// Transactions reads the chosen batches for markers.
func (s *Survey) Transactions(fs vfs.FS) (*Committed, error) {
	c := &Committed{spans: map[model.ProducerID][]span{}}
	state := producer.New()
	err := s.Each(fs, func(b record.Batch) error {
		if done, ok := state.Update(b); ok && !done.Aborted {
			c.spans[done.ProducerID] = append(c.spans[done.ProducerID], span{done.FirstOffset, done.LastOffset})
		}
		return nil
	})
	return c, err
}

// Shows reports whether a reader of committed records sees a batch: it is no
// marker, and belongs to no transaction or to one that was committed.
func (c *Committed) Shows(b record.Batch) bool {
	switch {
	case b.IsControl():
		return false
	case !b.IsTransactional():
		return true
	}
	return slices.ContainsFunc(c.spans[b.ProducerID()], func(s span) bool {
		return s.first <= b.BaseOffset() && b.LastOffset() < s.last
	})
}
