package server

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// gatherMax is the size of the buffer in which headers and record bytes
	// are gathered before they are written together.
	gatherMax = 256 << 10

	// gatherInline is up to how many record bytes are read by who answers a
	// parked Fetch; more are left to a writer goroutine, because reading them
	// may have to wait for the disk.
	gatherInline = 64 << 10

	// pipeChunk is how much is written at a time to a connection that is not a
	// plain socket, so that its write deadline can follow its progress.
	pipeChunk = 64 << 10
)

var gathers = sync.Pool{New: func() any { return new([gatherMax]byte) }}

// writer is the state of whoever is writing, which Conn.writing makes one at a
// time.
type writer struct {
	fn   func(fd uintptr) bool // made once, so that a write allocates nothing
	left []byte                // what fn has to write
	more bool                  // more follows at once: don't send a short packet yet
	wait bool                  // fn may wait for the socket to take bytes
	err  error                 // what fn met

	file      *os.File // what fn has to send, if not nil, instead of left
	filePos   int64
	fileBytes int

	rest *outgoing // what is left of an outgoing that would have made us wait
}

// flush writes all that is ready, waiting for the peer as long as it reads. The
// reader calls it; if another goroutine is writing, that one goes on.
func (c *Conn) flush() {
	c.mu.Lock()
	if c.writing || c.dead || c.out == nil && !c.closing {
		c.mu.Unlock()
		return
	}
	c.writing = true
	c.mu.Unlock()
	c.writeOut()
}

// writeSoon writes what is ready as far as the socket takes it without waiting,
// and leaves the rest to a goroutine. The caller has set c.writing.
func (c *Conn) writeSoon() {
	if c.woken != nil {
		c.writeOut()
		return
	}
	if !c.tryWriteOut() {
		c.srv.cfg.Group.Go("connection writer", c.writeOut)
	}
}

// next takes the outgoing to be written, or ends the caller's turn at writing.
func (c *Conn) next() *outgoing {
	if o := c.rest; o != nil {
		c.rest = nil
		return o
	}
	c.mu.Lock()
	o := c.out
	c.out = nil
	closing := false
	if o == nil {
		c.writing = false
		closing = c.closing
		if c.over() {
			c.signal()
		}
	}
	c.mu.Unlock()
	if closing {
		c.shut()
	}
	return o
}

// tryWriteOut writes until all is written, which it reports, or until the
// writer would have to wait.
func (c *Conn) tryWriteOut() (all bool) {
	if c.raw == nil {
		return false
	}
	for o := c.next(); o != nil; o = c.next() {
		if len(o.bodies) > 0 && o.size() > gatherInline {
			c.rest = o
			return false
		}
		if len(o.bodies) > 0 {
			flat, err := o.flatten()
			if err != nil {
				c.writeFailed(err)
				return true
			}
			o = flat
		}
		n, err := c.writeNow(o.buf[o.sent:])
		o.sent += n
		if err != nil {
			o.recycle()
			c.writeFailed(err)
			return true
		}
		if o.sent < len(o.buf) {
			c.rest = o
			return false
		}
		c.srv.wrote(o)
		o.recycle()
	}
	return true
}

// writeOut writes until all is written. The caller has set c.writing.
func (c *Conn) writeOut() {
	for o := c.next(); o != nil; o = c.next() {
		err := c.write(o)
		if err == nil {
			c.srv.wrote(o)
		}
		o.recycle()
		if err != nil {
			c.writeFailed(err)
			return
		}
	}
}

// writeFailed closes the connection. c.writing stays set, so that nobody tries
// again.
func (c *Conn) writeFailed(err error) {
	c.srv.cfg.Logger.Debug("connection closed: answer not written",
		zap.String("remote", c.remote), zap.Error(err))
	c.shut()
}

// write writes one outgoing, waiting as needed.
func (c *Conn) write(o *outgoing) error {
	if len(o.bodies) == 0 {
		return c.writeAll(o.buf[o.sent:], false)
	}
	g := gather{conn: c, buf: gathers.Get().(*[gatherMax]byte)}
	defer gathers.Put(g.buf)
	at := o.sent
	for i := range o.bodies {
		p := &o.bodies[i]
		if err := g.bytes(o.buf[at:p.at]); err != nil {
			return err
		}
		at = p.at
		if err := g.body(p.body); err != nil {
			return err
		}
	}
	if err := g.bytes(o.buf[at:]); err != nil {
		return err
	}
	return g.flush(false)
}

// flatten returns an outgoing of bytes alone with all that is in o, read from
// the regions as needed; o is recycled.
func (o *outgoing) flatten() (*outgoing, error) {
	flat := newOutgoing()
	at := o.sent
	var err error
	for i := range o.bodies {
		p := &o.bodies[i]
		flat.buf = append(flat.buf, o.buf[at:p.at]...)
		at = p.at
		if flat.buf, err = p.body.appendTo(flat.buf); err != nil {
			flat.recycle()
			o.recycle()
			return nil, err
		}
	}
	flat.buf = append(flat.buf, o.buf[at:]...)
	flat.answered = append(flat.answered, o.answered...)
	o.recycle()
	return flat, nil
}

// appendTo appends the whole answer, its records read from their regions.
func (b *FetchBody) appendTo(dst []byte) ([]byte, error) {
	buf, at := b.enc.Bytes(), 0
	for i, cut := range b.enc.Cuts() {
		dst = append(dst, buf[at:cut.At]...)
		at = cut.At
		start := len(dst)
		dst = append(dst, make([]byte, cut.Len)...)
		if err := readRegion(b.regions[i], dst[start:], 0); err != nil {
			return dst, err
		}
	}
	return append(dst, buf[at:]...), nil
}

// readRegion fills p from a region at off. Fewer bytes than the region promised
// are an error: the answer's header has told the client how many will come.
func readRegion(r Region, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("records at %d of %d bytes: read %d of %d: %w", off, r.Len(), n, len(p), err)
}

// gather collects bytes and writes them in large pieces.
type gather struct {
	conn *Conn
	buf  *[gatherMax]byte
	n    int
}

func (g *gather) bytes(p []byte) error {
	if len(p) > len(g.buf)-g.n {
		if err := g.flush(true); err != nil {
			return err
		}
		if len(p) >= len(g.buf) {
			return g.conn.writeAll(p, true)
		}
	}
	g.n += copy(g.buf[g.n:], p)
	return nil
}

func (g *gather) body(b *FetchBody) error {
	buf, at := b.enc.Bytes(), 0
	for i, cut := range b.enc.Cuts() {
		if err := g.bytes(buf[at:cut.At]); err != nil {
			return err
		}
		at = cut.At
		if err := g.region(b.regions[i]); err != nil {
			return err
		}
	}
	return g.bytes(buf[at:])
}

// region sends a long region from its file and reads a short one.
func (g *gather) region(r Region) error {
	c := g.conn
	if c.sendfileMin >= 0 && r.Len() >= c.sendfileMin && c.raw != nil {
		if f, pos, ok := r.OSFile(); ok {
			if err := g.flush(true); err != nil {
				return err
			}
			return c.sendFile(f, pos, r.Len())
		}
	}
	for off := 0; off < r.Len(); {
		if g.n == len(g.buf) {
			if err := g.flush(true); err != nil {
				return err
			}
		}
		n := min(r.Len()-off, len(g.buf)-g.n)
		if err := readRegion(r, g.buf[g.n:g.n+n], int64(off)); err != nil {
			return err
		}
		g.n += n
		off += n
	}
	return nil
}

func (g *gather) flush(more bool) error {
	n := g.n
	g.n = 0
	if n == 0 {
		return nil
	}
	return g.conn.writeAll(g.buf[:n], more)
}

// writeNow writes what a plain socket takes without waiting.
func (c *Conn) writeNow(p []byte) (n int, err error) {
	c.left, c.more, c.wait, c.err, c.file = p, false, false, nil, nil
	if err := c.raw.Write(c.fn); err != nil {
		return 0, err
	}
	n = len(p) - len(c.left)
	c.left = nil
	return n, c.err
}

// writeAll writes p, waiting for the peer to read as long as it reads anything
// within Config.WriteMax. more means that more is to follow at once.
func (c *Conn) writeAll(p []byte, more bool) error {
	if len(p) == 0 {
		return nil
	}
	if c.raw == nil {
		return c.writePipe(p)
	}
	c.left, c.more, c.file = p, more, nil
	return c.run()
}

// sendFile sends n bytes of a file from a position, without moving the file's
// own.
func (c *Conn) sendFile(f *os.File, pos int64, n int) error {
	c.left, c.file, c.filePos, c.fileBytes = nil, f, pos, n
	err := c.run()
	c.file = nil
	return err
}

// run has the prepared write done, first without waiting; if that is not
// enough, each wait for the socket has WriteMax.
func (c *Conn) run() error {
	c.wait, c.err = false, nil
	waited := false
	for {
		todo := c.todo()
		if err := c.raw.Write(c.fn); err != nil {
			return err
		}
		if c.err != nil {
			return c.err
		}
		if c.todo() == 0 {
			break
		}
		if !waited || c.todo() < todo {
			if err := c.nc.SetWriteDeadline(time.Now().Add(c.srv.cfg.WriteMax)); err != nil {
				return err
			}
		}
		waited, c.wait = true, true
	}
	c.left = nil
	if waited {
		// A deadline that passed later would fail the next write at once.
		return c.nc.SetWriteDeadline(time.Time{})
	}
	return nil
}

// todo returns how many bytes the prepared write still has to write.
func (c *Conn) todo() int {
	if c.file != nil {
		return c.fileBytes
	}
	return len(c.left)
}

func (c *Conn) writePipe(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), pipeChunk)
		if err := c.nc.SetWriteDeadline(time.Now().Add(c.srv.cfg.WriteMax)); err != nil {
			return err
		}
		if _, err := c.nc.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return c.nc.SetWriteDeadline(time.Time{})
}
