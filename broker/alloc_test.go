package broker

import (
	"encoding/binary"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// produceAllocsMax is what a produce request may allocate on its whole way from
// the socket to the log and back, whatever its size: decoding by kmsg (3), the
// log's new View, the partition's new State, and little else. Records cost
// nothing.
const produceAllocsMax = 9

func TestProduceAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	b := startBroker(t, t.TempDir())
	defer stopBroker(t, b)
	createTopic(t, client(t, b), "plain", 1, nil)
	now := model.Timestamp(time.Now().UnixMilli())
	for _, records := range []int{1, 1000} {
		c := rawDial(t, b)
		req := produceTo("plain", 0, -1, batchOf(record.Options{}, now, make([][]byte, records)...))
		req.SetVersion(9)
		frame := kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
		answer := make([]byte, 4096)
		exchange := func() {
			if _, err := c.c.Write(frame); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c.c, answer[:4]); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c.c, answer[:binary.BigEndian.Uint32(answer)]); err != nil {
				t.Fatal(err)
			}
		}
		got := testing.AllocsPerRun(500, exchange)
		t.Logf("%d records: %.1f allocations a request", records, got)
		if got > produceAllocsMax {
			t.Errorf("%d records: %.1f allocations a request, want at most %d", records, got, produceAllocsMax)
		}
	}
}
