package coordinator

import (
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// batch is one batch of keys at an offset.
func batch(base model.Offset, o record.Options, keys ...string) []byte {
	o.BaseOffset = base
	b := record.NewBuilder(o)
	for _, k := range keys {
		b.Append(1, []byte(k), []byte("v"))
	}
	return b.Build()
}

func marker(base model.Offset, id model.ProducerID, t record.ControlType) []byte {
	b := record.NewBuilder(record.Options{BaseOffset: base, ProducerID: id, Transactional: true, Control: true})
	b.AppendMarker(1, record.Marker{Type: t})
	return b.Build()
}

// A log is loaded slice by slice: holes are legal, what can't be read is passed
// over, transactions count when they are committed.
func TestLoader(t *testing.T) {
	txn := func(id model.ProducerID) record.Options {
		return record.Options{ProducerID: id, Transactional: true}
	}
	bad := batch(9, record.Options{}, "damaged")
	bad[len(bad)-1] ^= 1
	var set []byte
	for _, b := range [][]byte{
		batch(0, record.Options{}, "below"), batch(2, record.Options{Codec: 1}, "a", "b"), batch(4, txn(7), "committed"),
		batch(5, txn(8), "aborted"), batch(6, txn(9), "undecided"), marker(7, 7, record.Commit), marker(8, 8, record.Abort),
		bad, batch(20, record.Options{}, "last"),
	} {
		set = append(set, b...)
	}
	m := &tape{}
	l := NewLoader(m, 2)
	for at := 0; at < len(set); {
		end := min(at+150, len(set))
		before := l.Next()
		if err := l.Feed(set[at:end], 3); err != nil {
			t.Fatal(err)
		}
		if l.Next() == before && l.Next() > 2 && end < len(set) {
			t.Fatalf("no progress at %d", at)
		}
		it := record.NewIter(set[at:end])
		for it.Next() {
		}
		at += end - at - it.Rest()
		if it.Rest() == end && end == len(set) {
			break
		}
	}
	_, sum := l.Done()
	var replayed []string
	for _, s := range m.told {
		if len(s) > 6 && s[:6] == "replay" {
			replayed = append(replayed, s)
		}
	}
	want := []string{"replay a at 2", "replay b at 3", "replay committed at 7", "replay last at 20"}
	if fmt.Sprint(replayed) != fmt.Sprint(want) {
		t.Errorf("replayed %q, want %q", replayed, want)
	}
	if sum.Damaged != 1 || sum.Undecided != 1 || l.Next() != 21 {
		t.Errorf("%+v, next %d", sum, l.Next())
	}
}

// FuzzLoader: no bytes of a log make loading fail but with an error.
func FuzzLoader(f *testing.F) {
	f.Add(batch(0, record.Options{}, "a", "b"))
	f.Add(append(batch(0, record.Options{ProducerID: 3, Transactional: true}, "a"), marker(1, 3, record.Commit)...))
	f.Fuzz(func(t *testing.T, set []byte) {
		l := NewLoader(&tape{}, 0)
		before := l.Next()
		_ = l.Feed(set, 5)
		if l.Next() < before {
			t.Error("it went back")
		}
		l.Done()
	})
}
