package dump

import (
	"strings"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/receipt"
)

// receiptFile stands beside kept bytes.
const receiptFile = "receipt.json"

// isJournal knows a journal of receipts by its name.
func isJournal(name string) bool {
	digits, ok := strings.CutPrefix(name, "receipts-")
	digits, ok2 := strings.CutSuffix(digits, ".jsonl")
	_, ok3 := number(digits, 10, 64)
	return ok && ok2 && ok3
}

// receipts shows what left logs.
func (d *dumper) receipts() error {
	text, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	list, torn := receipt.Decode(text)
	for i := range list {
		d.receipt(&list[i])
	}
	if torn > 0 {
		d.out.found(-1, "%d lines are no receipts", torn)
	}
	return nil
}

func (d *dumper) receipt(r *receipt.Receipt) {
	p := &d.out
	p.begin("receipt", "")
	p.num("id", r.ID)
	p.str("time", r.Time)
	p.str("cause", string(r.Cause))
	p.bytes("detail", []byte(r.Detail))
	p.bytes("topic", []byte(r.Topic))
	p.num("partition", int64(r.Partition))
	p.num("startOffset", r.Start)
	p.num("endOffset", r.End)
	p.num("records", r.Records)
	p.num("bytes", r.Bytes)
	p.flag("belowHighWatermark", r.BelowHighWatermark)
	p.bytes("kept", []byte(r.Kept))
	p.end()
}
