package broker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/tidemark/tidemark/compat/proc"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/protocol"
)

// TestQuorumGrows: one node is a quorum of its own; others come by
// controller.quorum.bootstrap.servers and are added, and the first is removed.
func TestQuorumGrows(t *testing.T) {
	first, err := proc.FreePorts(6)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var nodes [4]*Broker
	start := func(id int) {
		t.Helper()
		home := fmt.Sprintf("%s/%d", dir, id)
		flags := []string{
			fmt.Sprintf("node.id=%d", id), "controller.listener.names=CONTROLLER",
			fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", first+2*id-2, first+2*id-1),
			"log.dirs=" + home, "tidemark.kept.dir=" + home + "/.kept", "broker.heartbeat.interval.ms=500",
		}
		if id != 1 {
			flags = append(flags, fmt.Sprintf("controller.quorum.bootstrap.servers=127.0.0.1:%d", first+1))
		}
		settings, _, _, err := config.Load(config.Sources{Flags: flags})
		if err != nil {
			t.Fatal(err)
		}
		b, err := New(Config{Settings: settings, Logger: zaptest.NewLogger(t, zaptest.Level(zap.InfoLevel)).Named(fmt.Sprint("n", id))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := b.Start(ctx); err != nil {
			t.Fatalf("node %d: %v", id, err)
		}
		nodes[id] = b
	}
	for id := 1; id <= 3; id++ {
		start(id)
	}
	defer func() {
		for id := 1; id <= 3; id++ {
			if nodes[id] != nil {
				stopBroker(t, nodes[id])
			}
		}
	}()
	for id := 2; id <= 3; id++ {
		if nodes[id].ClusterID() != nodes[1].ClusterID() {
			t.Fatalf("node %d is in cluster %s", id, nodes[id].ClusterID())
		}
		dir, _ := nodes[id].voter.Identity()
		req := kmsg.NewPtrAddRaftVoterRequest()
		req.VoterID, req.VoterDirectoryID, req.TimeoutMillis, req.AckWhenCommitted = int32(id), dir, 10_000, true
		l := kmsg.NewAddRaftVoterRequestListener()
		l.Name, l.Host, l.Port = "CONTROLLER", "127.0.0.1", uint16(first+2*id-1)
		req.Listeners = append(req.Listeners, l)
		// Asked of a broker that is not the active controller.
		if resp := rawDial(t, nodes[3]).call(req, 1).(*kmsg.AddRaftVoterResponse); resp.ErrorCode != protocol.CodeNone {
			t.Fatalf("add %d: %+v %v", id, resp, resp.ErrorMessage)
		}
	}
	eventually(t, "there are three voters", func() bool { return len(nodes[3].Image().Voters()) == 3 })
	own, _ := nodes[1].voter.Identity()
	req := kmsg.NewPtrRemoveRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID = 1, own
	if resp := rawDial(t, nodes[2]).call(req, 0).(*kmsg.RemoveRaftVoterResponse); resp.ErrorCode != protocol.CodeNone {
		t.Fatalf("remove 1: %+v %v", resp, resp.ErrorMessage)
	}
	eventually(t, "another node leads", func() bool {
		return nodes[2].quorum.Describe().Active || nodes[3].quorum.Describe().Active
	})
	// The first one is a broker still, and its metadata moves on.
	c := &three{t: t, nodes: nodes}
	c.createAt(1, "after", 1)
	if resp := rawDial(t, nodes[1]).produceAll("after", plainBatch(1, 10)); resp.ErrorCode != protocol.CodeNone {
		t.Errorf("produce: code %d", resp.ErrorCode)
	}
}
