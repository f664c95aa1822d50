package server

import (
	"io"
	"net"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/protocol"
)

// FuzzConnection sends any bytes in any pieces and ends the connection; the
// server must neither panic, nor hang, nor keep memory, and must hand over only
// requests of APIs and versions that are served.
func FuzzConnection(f *testing.F) {
	f.Add(encode(metadata("x"), 1), uint8(3))
	f.Add(slices.Concat(encode(produce(1, 100), 1), encode(metadata("x"), 2), encode(fetchRequest(), 3)), uint8(50))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint8(1))
	f.Add([]byte{0, 0, 0, 16, 0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f}, uint8(4))
	f.Add([]byte{0, 0, 0, 17, 0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0, 1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f}, uint8(4))
	f.Fuzz(func(t *testing.T, in []byte, piece uint8) {
		h := newHarness(t, Config{}, handlerFunc(func(r *Request) {
			api, ok := protocol.Lookup(r.Header.Key)
			if !ok || !api.Served(r.Header.Version) || r.Msg == nil {
				t.Errorf("handed over: API %d version %d, body of %d", r.Header.Key, r.Header.Version, len(r.Body))
			}
			r.Retain()
			r.Reply(r.Msg.ResponseKind())
			r.Release()
		}))
		ours, theirs := net.Pipe()
		h.srv.Open(theirs, Listener{Name: "PIPE"})
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		for len(in) > 0 {
			n := min(len(in), int(piece)+1)
			if _, err := ours.Write(in[:n]); err != nil {
				break
			}
			in = in[n:]
		}
		_ = ours.Close()
		h.stop()
		if n := h.srv.Stats().Panics; n > 0 {
			t.Errorf("%d panics", n)
		}
	})
}
