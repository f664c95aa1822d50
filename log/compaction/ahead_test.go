package compaction

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// logOf makes batches of so many records each, of keys drawn at random; some
// records have no key.
func logOf(seed uint64, perBatch, records, keys int, codec record.Codec) []record.Batch {
	r := rand.New(rand.NewPCG(seed, 1))
	var all []record.Batch
	for at := 0; at < records; at += perBatch {
		b := record.NewBuilder(record.Options{BaseOffset: model.Offset(at), Codec: codec})
		for i := range perBatch {
			var key []byte
			if k := r.IntN(keys + keys/10); k < keys {
				key = fmt.Appendf(nil, "key-%d", k)
			}
			b.Append(0, key, fmt.Append(nil, at+i))
		}
		all = append(all, b.Build())
	}
	return all
}

// cleanedOf is the offsets of what two passes leave, and how far the map knows
// the log.
func cleanedOf(t *testing.T, batches []record.Batch, slots int) (left []model.Offset, latest model.Offset) {
	t.Helper()
	m := NewOffsetMap(int64(slots)*SlotBytes, 0.9, Secret{1, 2})
	index := NewIndex(m, 0, nil)
	for _, b := range batches {
		if more, err := index.Batch(b); err != nil {
			t.Fatal(err)
		} else if !more {
			break
		}
	}
	p := NewPass(m, Rules{}, nil)
	for _, b := range batches {
		out, err := p.Append(nil, b)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) == 0 {
			continue
		}
		err = record.Batch(out).EachGlance(record.DefaultDecompressedMax, func(g *record.Glance) error {
			left = append(left, g.Offset)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return left, m.Latest()
}

// TestKeysAheadChangeNothing: what stays of a log and where a full map ends are
// the same whether its records come one by one or many in a batch, compressed or
// not.
func TestKeysAheadChangeNothing(t *testing.T) {
	for seed, c := range []struct{ perBatch, records, keys, slots int }{
		{together - 1, 5000, 700, 1 << 14}, {together, 5120, 700, 1 << 14}, {together + 1, 5160, 700, 1 << 14},
		{1000, 5000, 3000, 1 << 14},
		{1000, 5000, 3000, 500}, // the map is full in the middle of a batch
		{together, 5120, 3000, 2*together + 30},
		{aheadMost + 500, 2 * (aheadMost + 500), 4000, 1 << 14},
	} {
		n := c.records / c.perBatch * c.perBatch
		want, latest := oneByOne(t, logOf(uint64(seed), c.perBatch, n, c.keys, 0), c.slots)
		for _, codec := range []record.Codec{0, 3} {
			got, at := cleanedOf(t, logOf(uint64(seed), c.perBatch, n, c.keys, codec), c.slots)
			if !slices.Equal(got, want) || at != latest {
				t.Errorf("%+v, codec %v: %d records stay and the map knows the log up to %d, want %d and %d", c, codec, len(got), at, len(want), latest)
			}
		}
	}
}

// oneByOne cleans by a plain map.
func oneByOne(t *testing.T, batches []record.Batch, slots int) (left []model.Offset, latest model.Offset) {
	t.Helper()
	most := NewOffsetMap(int64(slots)*SlotBytes, 0.9, Secret{1, 2}).most
	last, full := map[string]model.Offset{}, false
	latest = model.NoOffset
	each := func(do func(g *record.Glance)) {
		for _, b := range batches {
			err := b.EachGlance(record.DefaultDecompressedMax, func(g *record.Glance) error {
				do(g)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if !full {
				latest = b.LastOffset()
			}
		}
	}
	known := model.NoOffset
	each(func(g *record.Glance) {
		_, there := last[string(g.Key)]
		switch {
		case full || g.Key == nil:
		case !there && len(last) == most:
			full = true
		default:
			last[string(g.Key)] = g.Offset
			known = g.Offset
		}
	})
	if full {
		// Up to the last record that was taken, or to the end of the batch before.
		for _, b := range batches {
			if b.LastOffset() <= known {
				continue
			}
			latest = max(known, b.BaseOffset()-1)
			break
		}
	}
	full = true // what follows reads only
	each(func(g *record.Glance) {
		if g.Offset > latest || g.Key != nil && last[string(g.Key)] <= g.Offset {
			left = append(left, g.Offset)
		}
	})
	return left, latest
}
