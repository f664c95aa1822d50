package server

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A LocalConn handles and answers as a connection with a socket: whole frames
// however they are cut, answers in order, nothing beyond the bound.
func TestLocalConn(t *testing.T) {
	var held []*Request
	hs := newHarness(t, Config{RequestsMax: 3}, handlerFunc(func(r *Request) { held = append(held, r) }))
	var ids []int32
	woken := false
	c := hs.srv.Local(Listener{Name: "PLAINTEXT"},
		func(frame []byte) { ids = append(ids, int32(binary.BigEndian.Uint32(frame[4:]))) },
		func() { woken = true })
	var stream []byte
	for id := range int32(5) {
		stream = append(stream, kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrMetadataRequest(), id)...)
	}
	c.Submit(stream[:7])
	c.Submit(stream[7 : len(stream)-3])
	if len(held) != 3 || c.Unanswered() != 3 {
		t.Fatalf("%d requests handled, %d unanswered, want 3", len(held), c.Unanswered())
	}
	answer := func(r *Request) { r.Reply(kmsg.NewPtrMetadataResponse()) }
	answer(held[1])
	if len(ids) != 0 {
		t.Fatalf("answers %v before the first request's", ids)
	}
	answer(held[0])
	if !slices.Equal(ids, []int32{0, 1}) || !woken {
		t.Fatalf("answers %v, woken %v", ids, woken)
	}
	c.Resume()
	c.Submit(stream[len(stream)-3:])
	if len(held) != 5 {
		t.Fatalf("%d requests handled, want all 5", len(held))
	}
	c.Drain()
	for _, r := range held[2:] {
		answer(r)
	}
	c.Resume()
	if !slices.Equal(ids, []int32{0, 1, 2, 3, 4}) || !c.Closed() {
		t.Errorf("answers %v, closed %v", ids, c.Closed())
	}
	if s := hs.srv.Stats(); s.Connections != 0 || s.FrameBytes != 0 {
		t.Errorf("left behind: %+v", s)
	}
	bad := hs.srv.Local(Listener{Name: "PLAINTEXT"}, func([]byte) {}, func() {})
	bad.Submit([]byte("GET / HTTP/1.1\r\n"))
	if !bad.Closed() {
		t.Error("a connection with a bad frame is open")
	}
}
