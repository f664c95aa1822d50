package record

// Iter walks the batches of a set: bytes as they stand in a segment, a fetch
// answer or a produce request. It yields whole batches only. Bytes at the end
// that hold less than a batch are not an error: fetch answers are cut at any
// byte (KIP-74), and Rest says how many there are.
//
// Iter checks what it needs to walk (CheckHeader); it doesn't check CRCs.
type Iter struct {
	set  []byte
	pos  int // start of the current batch
	next int // start of the batch after it
	err  error
}

// NewIter returns an Iter that stands before the first batch of set.
func NewIter(set []byte) Iter { return Iter{set: set} }

// Next goes to the next batch and reports whether there is a whole, well
// formed one. After false see Err and Rest.
func (it *Iter) Next() bool {
	if it.err != nil {
		return false
	}
	rest := it.set[it.next:]
	it.pos = it.next
	if len(rest) < SizePrefix {
		return false
	}
	size := SizeOf(rest)
	if size < HeaderSize {
		it.err = corrupt(int64(it.pos), "length field says %d bytes, a header has %d", size, HeaderSize)
		return false
	}
	if len(rest) >= MagicPrefix && rest[posMagic] != Magic {
		it.err = corrupt(int64(it.pos), "magic %d, want %d", int8(rest[posMagic]), Magic)
		return false
	}
	if int64(len(rest)) < size {
		return false
	}
	b := Batch(rest[:size:size])
	if err := b.checkHeaderAt(int64(it.pos)); err != nil {
		it.err = err
		return false
	}
	it.next = it.pos + int(size)
	return true
}

// Batch is the current batch, valid after Next returned true. It aliases the
// set, with its capacity cut to its length.
func (it *Iter) Batch() Batch { return Batch(it.set[it.pos:it.next:it.next]) }

// Pos is the position of the current batch in the set or, after Next returned
// false, of the first byte that is not part of a yielded batch.
func (it *Iter) Pos() int { return it.pos }

// Rest is how many bytes follow the last batch that was yielded.
func (it *Iter) Rest() int { return len(it.set) - it.next }

// Err is nil or the *CorruptError that ended the walk.
func (it *Iter) Err() error { return it.err }
