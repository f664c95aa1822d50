//go:build mutants

package compaction

import (
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/protocol/record"
)

// Each mutant of this package leaves something else of a small log.
func TestMutantsAreFound(t *testing.T) {
	left := func() string {
		o := record.Options{Idempotent: true, ProducerID: 7}
		b := record.NewBuilder(o)
		b.Append(100, []byte("a"), []byte("1"))
		batches := []record.Batch{b.Build()}
		b.Reset(record.Options{BaseOffset: 1})
		b.Append(200, []byte("a"), nil)
		batches = append(batches, b.Build())
		b.Reset(record.Options{BaseOffset: 2})
		b.Append(200, []byte("z"), []byte("1"))
		batches = append(batches, b.Build())
		c := cleaning{to: 3, slots: 100, rules: Rules{Now: 1000, DeleteRetentionMs: 10, End: 3, Producers: lastRecords(batches)}}
		kept, _, _, err := c.clean(batches)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, b := range kept {
			show(&out, b)
		}
		return out.String()
	}
	want := left()
	for _, m := range mutant.Names() {
		if strings.HasPrefix(m.Name, "compaction-") {
			restore := mutant.Set(m.Name)
			if left() == want {
				t.Errorf("%s is not found", m.Name)
			}
			restore()
		}
	}
}
