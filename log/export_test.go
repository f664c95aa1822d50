package log

import "github.com/tidemark/tidemark/protocol/record"

// AddHead takes the head of one batch into a digest.
func AddHead(b record.Batch) uint32 {
	h := headSum{known: true}
	h.add(b)
	return h.sum
}
