package log_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/protocol/record"
)

// belowTheStart is what may become of a batch in what was deleted. bare: it can be passed over
// without an index.
var belowTheStart = map[string]struct {
	harm func(b []byte, at int)
	bare bool
}{
	"length":      {func(b []byte, at int) { b[at+9] ^= 1 }, false},
	"longer":      {func(b []byte, at int) { b[at+11] ^= 4 }, false},
	"over others": {func(b []byte, at int) { b[at+11] += byte(record.SizeOf(b[places(b[at:])[1]+at:])) }, true},
	"over all":    {func(b []byte, at int) { b[at+10], b[at+11] = 1, byte(places(b[at:])[5]-12) }, false},
	"magic":       {func(b []byte, at int) { b[at+16] = 1 }, false},
	"records":     {func(b []byte, at int) { b[at+65] ^= 1 }, true},
	"base offset": {func(b []byte, at int) { b[at+7] ^= 1 }, true},
	"epoch":       {func(b []byte, at int) { b[at+15] ^= 1 }, true},
	"all":         {func(b []byte, at int) { clear(b[at : at+60]) }, false},
}

// A scrub goes on behind damage in what was deleted of a segment, and finds every
// flipped bit of what is left of it, where the index leads there or the damaged batch
// tells how long it is.
func TestScrubBehindDamageBelowTheStart(t *testing.T) {
	for what, tc := range belowTheStart { // order-free
		for _, bare := range []bool{false, true} {
			for _, start := range []model.Offset{13, 14} {
				r, _ := segmented(t)
				r.must(r.l.IncrementLogStart(start))
				path := r.file(8, ".log")
				b := r.read(path)
				at := places(b)
				tc.harm(b, at[1]) // the batch of offset 9
				r.overwrite(path, b)
				if bare {
					r.must(r.mem.Remove(r.file(8, ".index")))
				}
				scrub := func() (*log.CorruptionError, error) {
					_, err := r.l.View().Scrub(8, log.Scrubbing{Epochs: r.l.Epochs(), Newest: 3, Buf: make([]byte, 128)})
					var c *log.CorruptionError
					errors.As(err, &c)
					return c, err
				}
				if c, err := scrub(); c == nil || c.Offset >= start {
					t.Errorf("%s, start %d, no index %v: %v", what, start, bare, err)
				}
				if bare && !tc.bare {
					continue
				}
				from := at[5] // the batch of 13 and 14
				for pos := from; pos < len(b); pos++ {
					for bit := range 8 {
						bad := bytes.Clone(b)
						bad[pos] ^= 1 << bit
						r.overwrite(path, bad)
						c, err := scrub()
						// Of the head of a batch that begins below the start only readers tell.
						head := start == 14 && pos < from+record.HeaderSize
						if c == nil || c.Offset < start && !head {
							t.Fatalf("%s, start %d, no index %v: bit %d of byte %d: %v", what, start, bare, bit, pos-from, err)
						}
					}
				}
			}
		}
	}
}

// Where no index leads behind the damage, and the next batch can't be found, nothing
// is said of what is behind.
func TestScrubEndsAtDamageBelowTheStart(t *testing.T) {
	r, _ := segmented(t)
	r.must(r.l.IncrementLogStart(13))
	path := r.file(8, ".log")
	b := r.read(path)
	at := places(b)
	b[at[1]+8] = 0x40
	b[at[6]+65] ^= 1
	r.overwrite(path, b)
	r.must(r.mem.Remove(r.file(8, ".index")))
	_, err := r.l.View().Scrub(8, log.Scrubbing{Epochs: r.l.Epochs(), Newest: model.NoEpoch, Buf: make([]byte, 128)})
	var c *log.CorruptionError
	if !errors.As(err, &c) || c.Offset != 9 {
		t.Errorf("%v", err)
	}
}
