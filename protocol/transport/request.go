package transport

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// Request is one request and who is told its answer. From Send until then it
// belongs to the peer.
type Request struct {
	// Msg is the request of one of Kafka's APIs; the peer sets its version to
	// the highest that both nodes know. Nil for one of our own.
	Msg kmsg.Request

	// Key, Version and Body are one of our own: a key from
	// protocol.FirstPrivateKey on.
	Key, Version int16
	Body         []byte

	// Timeout is how long after Send an answer is waited for; zero is the
	// peer's.
	Timeout time.Duration

	// Done is told the answer; nil if nobody wants to know.
	Done Receiver
}

// Receiver is told the answer to a request, exactly once, by a goroutine that
// owns no loop.
type Receiver interface{ Received(a Answer) }

// Answer is what a request came to: Err, or Msg for a request of Kafka's, or
// Body for one of our own.
type Answer struct {
	Msg  kmsg.Response // its byte fields alias the buffer
	Body []byte        // of the buffer
	Err  error

	buf *Buffer
}

// Retain adds a user of the bytes of Msg and Body.
func (a Answer) Retain() {
	if a.buf != nil {
		a.buf.Retain()
	}
}

// Release ends the use of those bytes. The receiver calls it once, and once more
// for each Retain; after an error it does nothing.
func (a Answer) Release() {
	if a.buf != nil {
		a.buf.Release()
	}
}

// Buffer returns what holds the bytes of Msg and Body; nil if nothing does.
func (a Answer) Buffer() *Buffer { return a.buf }

// key is the API's.
func (r *Request) key() int16 {
	if r.Msg != nil {
		return r.Msg.Key()
	}
	return r.Key
}

// name is the API's, for errors.
func (r *Request) name() string {
	if r.Msg == nil {
		return fmt.Sprintf("private API %d", r.Key)
	}
	if name := kmsg.NameForKey(r.Msg.Key()); name != "" {
		return name
	}
	return fmt.Sprintf("API %d", r.Msg.Key())
}

// pending is a request on its way. As a loop.Delivery it tells the receiver.
type pending struct {
	Request
	deadline model.Instant

	// Once written:
	conn    *link
	version int16
	corr    int32

	// Once it is decided: err, or the answer's buffer and what follows its
	// header.
	err  error
	buf  *Buffer
	body []byte
}

// fail decides that there is no answer.
func (p *pending) fail(errs ...error) *pending {
	p.err = fmt.Errorf("%s: %w", p.name(), joined(errs))
	return p
}

// Deliver tells the receiver. Taking the answer apart is done here, after the
// loop was released.
func (p *pending) Deliver(model.Now) {
	a := Answer{Err: p.err}
	if p.err == nil {
		a = p.decode()
	}
	if a.Err != nil && p.buf != nil {
		p.buf.Release()
		p.conn.distrust(a.Err)
	}
	if p.Done == nil {
		a.Release()
		return
	}
	p.Done.Received(a)
}

func (p *pending) decode() Answer {
	if p.Msg == nil {
		return Answer{Body: p.body, buf: p.buf}
	}
	msg, err := DecodeAnswer(p.Msg, p.body)
	if err != nil {
		return Answer{Err: err}
	}
	return Answer{Msg: msg, buf: p.buf}
}

// DecodeAnswer decodes the answer to a request whose version is set. Byte fields
// of the result alias body.
func DecodeAnswer(req kmsg.Request, body []byte) (kmsg.Response, error) {
	msg := req.ResponseKind()
	msg.SetVersion(req.GetVersion())
	if err := msg.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%s version %d, %d bytes: %w: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), len(body), ErrMalformed, err)
	}
	return msg, nil
}

// appendRequest appends a frame: size, header, body.
func appendRequest(dst []byte, r *Request, version int16, corr int32, clientID string) []byte {
	start := len(dst)
	flexible := r.Msg == nil || r.Msg.IsFlexible()
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.key()))
	dst = binary.BigEndian.AppendUint16(dst, uint16(version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(corr))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(clientID)))
	dst = append(dst, clientID...)
	if flexible {
		dst = append(dst, 0) // no tagged fields
	}
	if r.Msg != nil {
		dst = r.Msg.AppendTo(dst)
	} else {
		dst = append(dst, r.Body...)
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-protocol.FrameSizeLen))
	return dst
}

// parseAnswer splits an answer without its size into correlation id and body.
func parseAnswer(b []byte, flexible bool) (corr int32, body []byte, err error) {
	if len(b) < 4 {
		return 0, nil, fmt.Errorf("%d bytes: %w", len(b), ErrMalformed)
	}
	corr, body = int32(binary.BigEndian.Uint32(b)), b[4:]
	if !flexible {
		return corr, body, nil
	}
	count, n := binary.Uvarint(body)
	if n <= 0 || count > uint64(len(body)) {
		return corr, nil, fmt.Errorf("tags of the header: %w", ErrMalformed)
	}
	body = body[n:]
	for range count {
		_, n := binary.Uvarint(body)
		if n <= 0 {
			return corr, nil, fmt.Errorf("tags of the header: %w", ErrMalformed)
		}
		size, m := binary.Uvarint(body[n:])
		if m <= 0 || size > uint64(len(body)-n-m) {
			return corr, nil, fmt.Errorf("tags of the header: %w", ErrMalformed)
		}
		body = body[n+m+int(size):]
	}
	return corr, body, nil
}

// flexibleAnswer reports whether the answer's header ends in tagged fields.
// Those of ApiVersions never do (KIP-511).
func flexibleAnswer(r *Request) bool {
	if r.Msg == nil {
		return true
	}
	return r.Msg.Key() != protocol.KeyApiVersions && r.Msg.IsFlexible()
}
