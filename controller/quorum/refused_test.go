package quorum

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/internal/model"
)

// TestDueWhileHandingOver: while the leadership is handed on the library refuses
// proposals. What is due by itself, the end of a broker's session, is not tried
// again and again meanwhile.
func TestDueWhileHandingOver(t *testing.T) {
	c := seeded(t, 1, 3)
	c.startAll()
	c.register(c.leader())
	c.run(200 * ms)
	broker, l := c.nextID, c.leader()
	beat := kmsg.NewPtrBrokerHeartbeatRequest()
	beat.BrokerID, beat.BrokerEpoch = int32(broker), int64(l.image().Broker(broker).Epoch)
	beat.CurrentMetadataOffset = int64(l.image().At().Offset)
	l.node.Submit(controller.Command{Request: beat}, &outcome{})
	heard := c.sim.Now()
	c.run(model.Instant(controller.Defaults().SessionTimeout) - 100*ms)
	if l != c.leader() || l.image().Broker(broker).Fenced {
		t.Fatalf("another leader, or broker %d is fenced already", broker)
	}
	for _, n := range c.all { // nobody hears that it is to stand: the handing over goes on
		c.cut[[2]model.BrokerID{l.id, n.id}], c.cut[[2]model.BrokerID{n.id, l.id}] = true, true
	}
	l.node.Resign(func() {})
	const enough = 500
	end := heard + model.Instant(controller.Defaults().SessionTimeout) + 100*ms
	for events := 0; c.sim.Next() <= end; events++ {
		if events > enough {
			t.Fatalf("more than %d events within 200 ms, now at %s of %s", enough, millis(c.sim.Now()), millis(end))
		}
		c.sim.Step()
	}
	if l.image().Broker(broker).Fenced {
		t.Error("a leader that is cut off has fenced a broker")
	}
}
