package bench

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// requestTimeout bounds any single wait for an answer.
const requestTimeout = 60 * time.Second

// conn is one raw connection: encoded requests go out, answers are counted and
// mostly thrown away. It is used by one goroutine.
type conn struct {
	nc  net.Conn
	rd  *bufio.Reader
	out []byte
	fmt *kmsg.RequestFormatter
	id  int32
}

func dial(addr string) (*conn, error) {
	nc, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return &conn{
		nc:  nc,
		rd:  bufio.NewReaderSize(nc, 256<<10),
		fmt: kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")),
	}, nil
}

func (c *conn) close() { c.nc.Close() }

// encode returns r as a whole frame.
func (c *conn) encode(r kmsg.Request) []byte {
	c.id++
	return c.fmt.AppendRequest(nil, r, c.id)
}

// write sends frames as one write.
func (c *conn) write(frames ...[]byte) error {
	if err := c.nc.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return err
	}
	if len(frames) == 1 {
		_, err := c.nc.Write(frames[0])
		return err
	}
	c.out = c.out[:0]
	for _, f := range frames {
		c.out = append(c.out, f...)
	}
	_, err := c.nc.Write(c.out)
	return err
}

// skip reads one answer, throws it away and returns its size in bytes.
func (c *conn) skip() (int, error) {
	n, err := c.size()
	if err != nil {
		return 0, err
	}
	_, err = c.rd.Discard(n)
	return n, err
}

// size reads the length field of the next answer.
func (c *conn) size() (int, error) {
	var b [4]byte
	if _, err := io.ReadFull(c.rd, b[:]); err != nil {
		return 0, fmt.Errorf("read answer size: %w", err)
	}
	return int(binary.BigEndian.Uint32(b[:])), nil
}

// read reads one answer whole, without its size.
func (c *conn) read() ([]byte, error) {
	n, err := c.size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(c.rd, b)
	return b, err
}

// call sends r and decodes its answer.
func (c *conn) call(r kmsg.Request) (kmsg.Response, error) {
	if err := c.write(c.encode(r)); err != nil {
		return nil, err
	}
	b, err := c.read()
	if err != nil {
		return nil, err
	}
	return decode(r, b)
}

// decode turns the body of an answer to r into its struct.
func decode(r kmsg.Request, b []byte) (kmsg.Response, error) {
	resp := r.ResponseKind()
	skip := 4
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		skip = 5
	}
	if len(b) < skip {
		return nil, fmt.Errorf("answer of %d bytes to api key %d", len(b), r.Key())
	}
	return resp, resp.ReadFrom(b[skip:])
}

// ready reports whether at least one more answer has begun to arrive.
func (c *conn) ready() bool { return c.rd.Buffered() >= 4 }
