package broker

import (
	"encoding/binary"
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol"
)

// next reads the answer that comes next, whichever request it is for.
func (c *rawConn) next() (id int32, body []byte) {
	c.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c.c, size[:]); err != nil {
		c.t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.c, b); err != nil {
		c.t.Fatal(err)
	}
	return int32(binary.BigEndian.Uint32(b)), b[4:]
}

// TestPipelinedRequestsAreAnsweredInOrder: a long poll in front holds the
// answers back, not the effects.
func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	a := newAPI(t)
	if a.kafka() {
		t.Skip("Apache Kafka has one request of a connection under way at a time")
	}
	quiet, _ := a.topic("quiet", 1)
	busy, _ := a.topic("busy", 1)
	c := a.dial()
	poll := fetchOf(quiet, 0, 0, 1<<20)
	poll.MaxWaitMillis, poll.MinBytes = 20_000, 1
	c.send(poll, 11)
	first := c.id
	const rounds = 15 // below the 64 requests that a connection may have under way
	for range rounds {
		c.send(produceTo(busy, 0, -1, plainBatch(1, 10)), 11)
		c.send(kmsg.NewPtrMetadataRequest(), 9)
		c.send(listOffsets(busy, 0, -1, 0), 7)
		c.send(fetchOf(busy, 0, 0, 1<<20), 11)
	}
	// The parked poll does not keep the others from taking effect.
	other := a.dial()
	eventually(t, "the produces behind the poll are in the log", func() bool {
		return other.listOffset(7, busy, 0, -1, 0).Offset == rounds
	})
	other.produce(quiet, 0, plainBatch(1, 10))
	produced := int64(0)
	for want := first; want <= c.id; want++ {
		id, body := c.next()
		if id != want {
			t.Fatalf("answer to request %d, want %d", id, want)
		}
		switch (want - first) % 4 {
		case 1:
			resp := kmsg.NewPtrProduceResponse()
			resp.SetVersion(11)
			if err := resp.ReadFrom(body[1:]); err != nil || resp.Topics[0].Partitions[0].BaseOffset != produced {
				t.Fatalf("produce %d: %+v %v", produced, resp, err)
			}
			produced++
		case 3:
			resp := kmsg.NewPtrListOffsetsResponse()
			resp.SetVersion(7)
			if err := resp.ReadFrom(body[1:]); err != nil || resp.Topics[0].Partitions[0].Offset != produced {
				t.Fatalf("list offsets behind produce %d: %+v %v", produced, resp, err)
			}
		}
	}
}

// TestRequestsBehindAnEarlierOnesCreation: an automatic creation holds an answer
// back; the order stays.
func TestRequestsBehindAnEarlierOnesCreation(t *testing.T) {
	a := newAPI(t)
	c := a.dial()
	first := c.id + 1
	names := []string{a.name("made-1"), a.name("made-2"), a.name("made-3")}
	for _, n := range names {
		req := kmsg.NewPtrMetadataRequest()
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &n
		req.Topics, req.AllowAutoTopicCreation = append(req.Topics, rt), true
		c.send(req, 9)
		c.send(kmsg.NewPtrApiVersionsRequest(), 0)
	}
	for want := first; want <= c.id; want++ {
		if id, _ := c.next(); id != want {
			t.Fatalf("answer to request %d, want %d", id, want)
		}
	}
	if a.kafka() {
		return
	}
	for _, n := range names {
		if code := c.metadata(9, false, n).Topics[0].ErrorCode; code != protocol.CodeNone {
			t.Errorf("%s: %d", n, code)
		}
	}
}

// TestUnansweredRequestsOfAGoneClient: a client that leaves in the middle of a
// long poll leaves nothing behind, and its produces in front took effect.
func TestUnansweredRequestsOfAGoneClient(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("gone", 1)
	for i := range 20 {
		c := a.dial()
		c.send(produceTo(name, 0, -1, plainBatch(1, 10)), 11)
		poll := fetchOf(name, 0, int64(i)+1, 1<<20)
		poll.MaxWaitMillis, poll.MinBytes = 30_000, 1<<20
		c.send(poll, 11)
		if _, body := c.next(); len(body) == 0 {
			t.Fatal("no answer")
		}
		c.c.Close()
	}
	if end := a.dial().listOffset(7, name, 0, -1, 0).Offset; end != 20 {
		t.Errorf("the log ends at %d, want 20", end)
	}
}
