package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/loop/simtime"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// world is one peer in virtual time and the streams it opened.
type world struct {
	t       *testing.T
	sim     *simtime.Sim
	peer    *Peer
	streams []*fakeStream
	unknown bool // the address
	told    []string
	answers []Answer
	lost    []error
}

func newWorld(t *testing.T, change func(*PeerConfig)) *world {
	w := &world{t: t, sim: simtime.New(1)}
	c := PeerConfig{
		RT: w.sim.Runtime(simtime.Clocks{}, 0), Dialer: w, Rand: rand.New(rand.NewPCG(1, 2)),
		Class: ClassController, ClientID: ClientID(3, ClassController),
		Address:     func() (Address, bool) { return Address{2, "host", 9093}, !w.unknown },
		InFlightMax: 2, QueueMax: 3, Timeout: time.Second, ConnectTimeout: 500 * time.Millisecond,
		BackoffMin: 50 * time.Millisecond, BackoffMax: 400 * time.Millisecond,
		Lost: func(err error) { w.lost = append(w.lost, err) },
	}
	if change != nil {
		change(&c)
	}
	w.peer = NewPeer(c)
	return w
}

// Open implements Dialer.
func (w *world) Open(to Address, class Class, events StreamEvents) Stream {
	if to.HostPort() != "host:9093" || class != ClassController {
		w.t.Errorf("dialled %v %s", to, class)
	}
	s := &fakeStream{w: w, at: w.sim.Now(), events: events}
	w.streams = append(w.streams, s)
	return s
}

// fakeStream keeps what was written.
type fakeStream struct {
	w      *world
	at     model.Instant
	events StreamEvents
	frames [][]byte // not answered
	closed bool
}

func (s *fakeStream) Write(frame []byte) {
	if s.closed {
		s.w.t.Error("a write after Close")
	}
	if n := binary.BigEndian.Uint32(frame); int(n) != len(frame)-4 {
		s.w.t.Errorf("a frame of %d bytes says %d", len(frame), n)
	}
	s.frames = append(s.frames, frame)
}

func (s *fakeStream) Close() { s.closed = true }

// asked takes the first request that was not answered.
func (s *fakeStream) asked() (h protocol.RequestHeader, body []byte) {
	s.w.t.Helper()
	if len(s.frames) == 0 {
		s.w.t.Fatal("nothing was asked")
	}
	h, body, err := protocol.ParseRequestHeader(s.frames[0][4:], "")
	if err != nil {
		s.w.t.Fatal(err)
	}
	s.frames = s.frames[1:]
	return h, body
}

// answer answers it.
func (s *fakeStream) answer(msg kmsg.Response) protocol.RequestHeader {
	s.w.t.Helper()
	h, _ := s.asked()
	msg.SetVersion(h.Version)
	s.bytes(msg.AppendTo(protocol.AppendResponseHeader(nil, h.Key, h.Version, h.CorrelationID)))
	return h
}

func (s *fakeStream) bytes(b []byte) {
	buf := NewBuffer(len(b))
	copy(buf.Bytes(), b)
	s.events.Frame(buf)
}

// ready is a node that knows the ranges: up, asked, answered.
func (s *fakeStream) ready(ranges ...[3]int16) {
	s.w.t.Helper()
	s.events.Up()
	s.versions(ranges...)
}

func (s *fakeStream) versions(ranges ...[3]int16) {
	s.w.t.Helper()
	if len(ranges) == 0 {
		ranges = [][3]int16{{protocol.KeyBrokerHeartbeat, 0, 1}, {protocol.KeyMetadata, 0, 13}}
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	for _, r := range ranges {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = r[0], r[1], r[2]
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	if h := s.answer(resp); h.Key != protocol.KeyApiVersions || h.ClientID != "tidemark-broker-3-controller" {
		s.w.t.Errorf("the first request is %+v", h)
	}
}

// teller notes what a request came to.
type teller struct {
	w    *world
	name string
}

func (r *teller) Received(a Answer) {
	said := "ok"
	for _, e := range []struct {
		err error
		say string
	}{{ErrClosed, "closed"}, {ErrFull, "full"}, {ErrUnsupported, "unsupported"}, {ErrLost, "lost"}, {ErrTimeout, "timeout"}, {ErrMalformed, "malformed"}} {
		if errors.Is(a.Err, e.err) && a.Err != nil {
			said = e.say
			break
		}
	}
	if a.Err != nil && said == "ok" {
		said = a.Err.Error()
	}
	if errors.Is(a.Err, ErrNotSent) {
		said += " unsent"
	}
	r.w.told = append(r.w.told, r.name+" "+said)
	r.w.answers = append(r.w.answers, a)
}

// send sends heartbeats under names.
func (w *world) send(names ...string) {
	for _, name := range names {
		w.peer.Send(Request{Msg: kmsg.NewPtrBrokerHeartbeatRequest(), Done: &teller{w, name}})
	}
}

func (w *world) run(d time.Duration) { w.sim.RunUntil(w.sim.Now() + model.Instant(d)) }

func (w *world) last() *fakeStream { return w.streams[len(w.streams)-1] }

// want checks what was told since the last call.
func (w *world) want(told ...string) {
	w.t.Helper()
	if !slices.Equal(w.told, told) {
		w.t.Errorf("told %q, want %q", w.told, told)
	}
	w.told = nil
}

func (w *world) wantStreams(n int) {
	w.t.Helper()
	if len(w.streams) != n {
		w.t.Fatalf("%d streams were opened, want %d", len(w.streams), n)
	}
}

func heartbeat() kmsg.Response { return kmsg.NewPtrBrokerHeartbeatResponse() }

func TestRequestAndAnswer(t *testing.T) {
	w := newWorld(t, nil)
	w.wantStreams(0) // nothing is opened before there is something to send
	w.send("a")
	w.wantStreams(1)
	s := w.last()
	s.events.Up()
	if len(s.frames) != 1 {
		t.Fatalf("%d requests before the versions are known", len(s.frames))
	}
	s.versions()
	w.send("b")
	resp := kmsg.NewPtrBrokerHeartbeatResponse()
	resp.IsFenced = true
	if h := s.answer(resp); h.Key != protocol.KeyBrokerHeartbeat || h.Version != 1 {
		t.Errorf("asked %+v", h)
	}
	w.want("a ok")
	if got := w.answers[0].Msg.(*kmsg.BrokerHeartbeatResponse); !got.IsFenced {
		t.Errorf("answered %+v", got)
	}
	w.answers[0].Release()
	s.answer(heartbeat())
	w.want("b ok")
	w.wantStreams(1)
}

// Requests in flight are bounded, those that wait are too, and all keep their
// order.
func TestBounds(t *testing.T) {
	w := newWorld(t, nil)
	w.send("a", "b", "c", "d")
	w.want("d full unsent")
	s := w.last()
	s.ready()
	if len(s.frames) != 2 {
		t.Errorf("%d in flight, want 2", len(s.frames))
	}
	w.send("e", "f", "g")
	w.want("g full unsent")
	for range 5 {
		s.answer(heartbeat())
		if len(s.frames) > 2 {
			t.Errorf("%d in flight, want 2 at most", len(s.frames))
		}
	}
	w.want("a ok", "b ok", "c ok", "e ok", "f ok")
}

func TestVersionsInCommon(t *testing.T) {
	for _, c := range []struct {
		name   string
		theirs [3]int16
		want   int16 // -1: none
	}{
		{"ours is the highest", [3]int16{protocol.KeyMetadata, 0, 99}, 13},
		{"theirs is the highest", [3]int16{protocol.KeyMetadata, 0, 9}, 9},
		{"above ours", [3]int16{protocol.KeyMetadata, 98, 99}, -1},
		{"not served", [3]int16{protocol.KeyFetch, 4, 18}, -1},
		{"below what we serve", [3]int16{protocol.KeyProduce, 0, 2}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			var msg kmsg.Request = kmsg.NewPtrMetadataRequest()
			if c.theirs[0] == protocol.KeyProduce {
				msg = kmsg.NewPtrProduceRequest()
			}
			w.peer.Send(Request{Msg: msg, Done: &teller{w, "a"}})
			w.last().ready(c.theirs)
			if c.want < 0 {
				w.want("a unsupported unsent")
				if len(w.lost) > 0 {
					t.Error("the connection went down")
				}
				return
			}
			if h, _ := w.last().asked(); h.Version != c.want {
				t.Errorf("asked in version %d, want %d", h.Version, c.want)
			}
		})
	}
}

// A node that doesn't know our version of ApiVersions says so in version 0.
func TestOldApiVersions(t *testing.T) {
	w := newWorld(t, nil)
	w.send("a")
	s := w.last()
	s.events.Up()
	h, _ := s.asked()
	refusal := protocol.NewApiVersionsRefusal()
	s.bytes(refusal.AppendTo(protocol.AppendResponseHeader(nil, h.Key, 0, h.CorrelationID)))
	if h, _, _ := protocol.ParseRequestHeader(s.frames[0][4:], ""); h.Version != 0 {
		t.Fatalf("asked again in version %d", h.Version)
	}
	s.versions()
	s.answer(heartbeat())
	w.want("a ok")

	// And one that refuses even that is of no use.
	w = newWorld(t, nil)
	w.send("a")
	s = w.last()
	s.events.Up()
	for range 2 {
		h, _ := s.asked()
		s.bytes(refusal.AppendTo(protocol.AppendResponseHeader(nil, h.Key, 0, h.CorrelationID)))
	}
	w.want("a lost unsent")
	if !s.closed {
		t.Error("the connection is kept")
	}
}

// A request that timed out takes the connection and all others in flight with
// it: its answer could be taken for theirs.
func TestTimeout(t *testing.T) {
	w := newWorld(t, nil)
	w.send("a")
	s := w.last()
	s.ready()
	w.run(400 * time.Millisecond)
	w.send("b", "c")
	w.run(599 * time.Millisecond)
	w.want()
	w.run(2 * time.Millisecond)
	w.want("a timeout", "b lost")
	if !s.closed || len(w.lost) != 1 || !errors.Is(w.lost[0], ErrTimeout) {
		t.Errorf("closed %v, lost %v", s.closed, w.lost)
	}
	s.answer(heartbeat()) // late: of nobody's concern
	w.want()
	w.run(100 * time.Millisecond)
	w.wantStreams(2) // c waits
	w.last().ready()
	w.last().answer(heartbeat())
	w.want("c ok")
}

func TestOwnTimeout(t *testing.T) {
	w := newWorld(t, nil)
	w.peer.Send(Request{Msg: kmsg.NewPtrBrokerHeartbeatRequest(), Timeout: 100 * time.Millisecond, Done: &teller{w, "a"}})
	w.send("b")
	w.last().ready()
	w.run(101 * time.Millisecond)
	w.want("a timeout", "b lost")
}

// What waits in vain times out too, and no connection suffers from it.
func TestTimeoutOfWaiting(t *testing.T) {
	w := newWorld(t, func(c *PeerConfig) { c.InFlightMax = 1 })
	w.unknown = true
	w.send("a")
	w.run(990 * time.Millisecond)
	w.want()
	w.run(20 * time.Millisecond)
	w.want("a timeout unsent")
	w.wantStreams(0)

	w.unknown = false
	w.peer.Send(Request{Msg: kmsg.NewPtrBrokerHeartbeatRequest(), Timeout: 10 * time.Second, Done: &teller{w, "long"}})
	for len(w.streams) == 0 && w.sim.Step() {
	}
	w.last().ready()
	w.send("b")
	w.run(1001 * time.Millisecond)
	w.want("b timeout unsent")
	w.last().answer(heartbeat())
	w.want("long ok")
	w.wantStreams(1)
}

// A failed attempt fails what waits, a lost connection what is in flight.
func TestRefusedAndLost(t *testing.T) {
	w := newWorld(t, nil)
	w.send("a", "b")
	w.last().events.Down(syscall.ECONNREFUSED)
	w.want("a lost unsent", "b lost unsent")
	for _, a := range w.answers {
		if !errors.Is(a.Err, syscall.ECONNREFUSED) {
			t.Errorf("told %v", a.Err)
		}
	}
	w.send("c", "d", "e") // wait for the next attempt
	w.wantStreams(1)
	w.run(100 * time.Millisecond)
	w.wantStreams(2)
	s := w.last()
	s.ready()
	s.events.Down(fmt.Errorf("read: %w", syscall.ECONNRESET))
	w.want("c lost", "d lost")
	w.run(200 * time.Millisecond)
	w.wantStreams(3)
	w.last().ready()
	w.last().answer(heartbeat())
	w.want("e ok")
	if len(w.lost) != 2 || !errors.Is(w.lost[0], syscall.ECONNREFUSED) || !errors.Is(w.lost[1], syscall.ECONNRESET) {
		t.Errorf("lost %v", w.lost)
	}
	s.events.Down(io.EOF) // of a stream that is gone
	s.bytes([]byte{0, 0, 0, 9})
	w.want()
}

// The delays double up to their bound, within a fifth, and begin anew after an
// answer.
func TestBackoff(t *testing.T) {
	w := newWorld(t, nil)
	w.send("x")
	// gap fails the connection, has something wait, and says when the next
	// attempt begins.
	gap := func(err error) time.Duration {
		t.Helper()
		at, n := w.sim.Now(), len(w.streams)
		w.last().events.Down(err)
		w.send("x")
		for len(w.streams) == n && w.sim.Step() {
		}
		return time.Duration(w.last().at - at)
	}
	var gaps []time.Duration
	for range 8 {
		gaps = append(gaps, gap(syscall.ECONNREFUSED))
	}
	for i, g := range gaps {
		want := min(50*time.Millisecond<<i, 400*time.Millisecond)
		if g < want*8/10 || g > want*12/10 {
			t.Errorf("delay %d is %s, want %s within a fifth", i, g, want)
		}
	}
	if gaps[5] == gaps[6] && gaps[6] == gaps[7] {
		t.Errorf("no jitter: %v", gaps)
	}
	// A connection that answered starts from the shortest delay ...
	w.last().ready()
	w.last().answer(heartbeat())
	if g := gap(io.EOF); g < 40*time.Millisecond || g > 60*time.Millisecond {
		t.Errorf("after an answer: %s", g)
	}
	// ... one that also lived, from none ...
	w.last().ready()
	w.last().answer(heartbeat())
	w.run(450 * time.Millisecond)
	if g := gap(io.EOF); g != 0 {
		t.Errorf("after a long life: %s", g)
	}
	// ... and one that answered nothing counts as a failure.
	w.last().ready()
	if g := gap(io.EOF); g < 40*time.Millisecond {
		t.Errorf("after nothing: %s", g)
	}
}

// Nothing is opened for nobody.
func TestIdlePeerStaysClosed(t *testing.T) {
	w := newWorld(t, nil)
	w.send("a")
	w.last().events.Down(syscall.ECONNREFUSED)
	w.run(time.Minute)
	w.wantStreams(1)
	w.send("b")
	w.wantStreams(2)
}

func TestConnectTimeout(t *testing.T) {
	for _, up := range []bool{false, true} {
		w := newWorld(t, nil)
		w.send("a")
		if up {
			w.last().events.Up() // and no answer to ApiVersions
		}
		w.run(499 * time.Millisecond)
		w.want()
		w.run(2 * time.Millisecond)
		w.want("a lost unsent")
		if !w.streams[0].closed {
			t.Error("the attempt goes on")
		}
	}
}

func TestClose(t *testing.T) {
	w := newWorld(t, nil)
	w.send("a", "b", "c")
	s := w.last()
	s.ready()
	w.peer.Close()
	w.want("a closed", "b closed", "c closed unsent")
	if !s.closed || len(w.lost) > 0 {
		t.Errorf("closed %v, lost %v", s.closed, w.lost)
	}
	w.send("d")
	w.want("d closed unsent")
	w.peer.Close()
	w.run(time.Minute)
	w.wantStreams(1)
	s.events.Down(io.EOF)
	w.want()
}

// What can't be an answer to what was asked closes the connection.
func TestBadAnswers(t *testing.T) {
	for _, c := range []struct {
		name  string
		frame func(h protocol.RequestHeader) []byte
		told  string
	}{
		{"another's correlation id", func(h protocol.RequestHeader) []byte {
			return heartbeat().AppendTo(protocol.AppendResponseHeader(nil, h.Key, h.Version, h.CorrelationID+1))
		}, "a lost"},
		{"no header", func(protocol.RequestHeader) []byte { return []byte{1, 2, 3} }, "a lost"},
		{"tags without end", func(h protocol.RequestHeader) []byte {
			return append(binary.BigEndian.AppendUint32(nil, uint32(h.CorrelationID)), 1, 0, 200)
		}, "a lost"},
		{"half a body", func(h protocol.RequestHeader) []byte {
			return append(protocol.AppendResponseHeader(nil, h.Key, h.Version, h.CorrelationID), 0, 0)
		}, "a malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.send("a")
			s := w.last()
			s.ready()
			h, _ := s.asked()
			s.bytes(c.frame(h))
			w.want(c.told)
			w.run(time.Millisecond)
			if !s.closed || len(w.lost) != 1 || !errors.Is(w.lost[0], ErrMalformed) {
				t.Errorf("closed %v, lost %v", s.closed, w.lost)
			}
		})
	}
	t.Run("nothing was asked", func(t *testing.T) {
		w := newWorld(t, nil)
		w.send("a")
		w.last().ready()
		w.last().answer(heartbeat())
		w.last().bytes([]byte{0, 0, 0, 1})
		if !w.last().closed || len(w.lost) != 1 {
			t.Error("the connection is kept")
		}
	})
}

// Our own APIs are sent as they are, under a flexible header.
func TestPrivateAPI(t *testing.T) {
	w := newWorld(t, nil)
	w.peer.Send(Request{Key: 20001, Version: 7, Body: []byte("question"), Done: &teller{w, "a"}})
	w.peer.Send(Request{Key: 19999, Done: &teller{w, "b"}})
	s := w.last()
	s.ready()
	w.want("b unsupported unsent")
	h, body := s.asked()
	if h.Key != 20001 || h.Version != 7 || string(body) != "question" {
		t.Errorf("asked %+v %q", h, body)
	}
	s.bytes(append(protocol.AppendResponseHeader(nil, h.Key, h.Version, h.CorrelationID), "answer"...))
	w.want("a ok")
	if a := w.answers[1]; string(a.Body) != "answer" || a.Msg != nil {
		t.Errorf("answered %+v", a)
	}
	w.answers[1].Release()
}

// Nobody need wait for an answer.
func TestNoReceiver(t *testing.T) {
	w := newWorld(t, nil)
	w.peer.Send(Request{Key: 20000})
	w.peer.Send(Request{Key: 20000})
	s := w.last()
	s.ready()
	h, _ := s.asked()
	s.bytes(protocol.AppendResponseHeader(nil, h.Key, h.Version, h.CorrelationID))
	s.events.Down(io.EOF)
	if len(w.lost) != 1 {
		t.Errorf("lost %v", w.lost)
	}
}

// A receiver may send.
func TestSendFromReceiver(t *testing.T) {
	w := newWorld(t, nil)
	again := &resender{w: w, left: 100}
	w.peer.Send(Request{Msg: kmsg.NewPtrBrokerHeartbeatRequest(), Done: again})
	s := w.last()
	s.ready()
	for range 101 {
		s.answer(heartbeat())
	}
	if again.left != -1 || len(s.frames) != 0 {
		t.Errorf("%d left, %d frames", again.left, len(s.frames))
	}
}

type resender struct {
	w    *world
	left int
}

func (r *resender) Received(a Answer) {
	a.Release()
	if r.left--; r.left >= 0 {
		r.w.peer.Send(Request{Msg: kmsg.NewPtrBrokerHeartbeatRequest(), Done: r})
	}
}

// The errors name the API and say what was met.
func TestErrorsSayWhat(t *testing.T) {
	w := newWorld(t, nil)
	w.send("a")
	w.last().events.Down(syscall.ECONNREFUSED)
	said := w.answers[0].Err.Error()
	for _, want := range []string{"BrokerHeartbeat", "connection lost", "not sent", "refused"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
}

func TestFifo(t *testing.T) {
	var q fifo
	next, want := 0, 0
	rng := rand.New(rand.NewPCG(5, 5))
	for range 10_000 {
		if rng.IntN(2) == 0 {
			q.push(&pending{corr: int32(next), deadline: model.Instant(next)})
			next++
		} else if q.len() > 0 {
			if q.nextDeadline() != model.Instant(want) {
				t.Fatalf("next deadline %d, want %d", q.nextDeadline(), want)
			}
			if r := q.pop(); r.corr != int32(want) {
				t.Fatalf("popped %d, want %d", r.corr, want)
			}
			want++
		}
		if q.len() != next-want {
			t.Fatalf("len %d, want %d", q.len(), next-want)
		}
	}
	if cap(q.items) > 4096 {
		t.Errorf("%d slots for %d items", cap(q.items), q.len())
	}
}

// FuzzAnswer: whatever bytes come as an answer, they are refused or decoded.
func FuzzAnswer(f *testing.F) {
	for _, msg := range []kmsg.Request{kmsg.NewPtrApiVersionsRequest(), kmsg.NewPtrFetchRequest(), kmsg.NewPtrBrokerHeartbeatRequest(),
		kmsg.NewPtrAlterPartitionRequest(), kmsg.NewPtrListOffsetsRequest(), kmsg.NewPtrOffsetForLeaderEpochRequest()} {
		for v := range msg.MaxVersion() + 1 {
			msg.SetVersion(v)
			f.Add(msg.Key(), v, msg.ResponseKind().AppendTo([]byte{0, 0, 0, 1, 0}))
		}
	}
	f.Fuzz(func(t *testing.T, key, version int16, frame []byte) {
		msg := kmsg.RequestForKey(key)
		if msg == nil || version < 0 || version > msg.MaxVersion() || len(frame) > 64<<10 {
			return
		}
		msg.SetVersion(version)
		r := &Request{Msg: msg}
		_, body, err := parseAnswer(frame, flexibleAnswer(r))
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Error(err)
			}
			return
		}
		if _, err := DecodeAnswer(msg, body); err != nil && !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
	})
}
