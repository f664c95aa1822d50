package sim

// disk is what the checkers read: one that readers see, or what a power failure
// would leave of it. Bytes at the same address are always the same.
type disk interface {
	List(dir string) ([]string, error)
	Content(name string) ([]byte, error)
}

// fileBatch is a batch as a segment file holds it.
type fileBatch struct {
	batchHead
	pos  int // in the file
	raw  []byte
	crc  uint32      // of what the CRC covers, as its bytes say
	recs []gotRecord // up to the first that is malformed
	bad  error       // what is wrong with its records
}

// each calls fn with every record.
func (b *fileBatch) each(fn func(gotRecord) error) error {
	for _, g := range b.recs {
		if err := fn(g); err != nil {
			return err
		}
	}
	return b.bad
}

// parsedFile is what was read of a segment file: its whole batches.
type parsedFile struct {
	batches []fileBatch
	size    int // of them, in bytes
	used    int // the look at which it was asked for last
}

// parses keeps what was read of files. The address of a file's bytes stands for
// them: they never change as long as somebody has them.
type parses struct {
	files map[*byte]*parsedFile
	looks int
	arena []gotRecord
}

// of returns the whole batches at the start of a file's bytes, how many bytes
// they take, and what is wrong with the next. What was read before is not read
// again.
func (p *parses) of(b []byte) (batches []fileBatch, n int, err error) {
	if len(b) == 0 {
		return nil, 0, nil
	}
	f := p.files[&b[0]]
	if f == nil {
		if p.files == nil {
			p.files = make(map[*byte]*parsedFile)
		}
		f = &parsedFile{}
		p.files[&b[0]] = f
	}
	f.used = p.looks
	if len(b) > f.size {
		_, err = eachBatch(b[f.size:], func(h *batchHead, raw []byte) error {
			f.batches = append(f.batches, p.parse(h, f.size, raw))
			f.size += len(raw)
			return nil
		})
		return f.batches, f.size, err
	}
	// The file is the start of what was read.
	k := len(f.batches)
	for n = f.size; n > len(b); n -= f.batches[k].size {
		k--
	}
	return f.batches[:k], n, nil
}

func (p *parses) parse(h *batchHead, pos int, raw []byte) fileBatch {
	if cap(p.arena)-len(p.arena) < int(h.count) {
		p.arena = make([]gotRecord, 0, max(4096, int(h.count)))
	}
	from := len(p.arena)
	bad := eachRecord(h, raw, func(g gotRecord) error {
		p.arena = append(p.arena, g)
		return nil
	})
	return fileBatch{*h, pos, raw, storedCRC(raw), p.arena[from:len(p.arena):len(p.arena)], bad}
}

// looked begins the next look, and forgets the files that nobody asked for in
// the last few.
func (p *parses) looked() {
	for at, f := range p.files { // order-free: forgets
		if f.used < p.looks-2 {
			delete(p.files, at)
		}
	}
	p.looks++
}
