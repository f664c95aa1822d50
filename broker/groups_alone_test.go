package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tidemark/tidemark/compat/proc"
	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/protocol"
)

// TestOneReplicaOfGroupsIsToldOf: a node that was alone keeps its groups in one
// replica; when a second broker joins it says so, once.
func TestOneReplicaOfGroupsIsToldOf(t *testing.T) {
	ports, err := proc.FreePorts(4)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.WarnLevel)
	start := func(id int, set ...string) *Broker {
		t.Helper()
		dir := t.TempDir()
		settings, _, _, err := config.Load(config.Sources{Flags: append([]string{
			fmt.Sprintf("node.id=%d", id), "controller.listener.names=CONTROLLER", "offsets.topic.num.partitions=1",
			"log.dirs=" + dir, "tidemark.kept.dir=" + dir + "/.kept", "broker.heartbeat.interval.ms=500",
		}, set...)})
		if err != nil {
			t.Fatal(err)
		}
		b, err := New(Config{Settings: settings, Logger: zap.New(core)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := b.Start(ctx); err != nil {
			t.Fatalf("node %d: %v", id, err)
		}
		t.Cleanup(func() { stopBroker(t, b) })
		return b
	}
	told := func() (n int) {
		for _, e := range logs.All() {
			if strings.Contains(e.Message, "consumer groups have one replica") {
				n++
			}
		}
		return n
	}
	first := start(1, fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", ports, ports+1))
	c := rawDial(t, first)
	eventually(t, "a coordinator", func() bool {
		return c.call(findGroups("g"), 4).(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode == 0
	})
	if told() != 0 {
		t.Error("a node that is alone is warned")
	}
	start(2, "process.roles=broker", fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d", ports+2), fmt.Sprintf("controller.quorum.bootstrap.servers=127.0.0.1:%d", ports+1))
	eventually(t, "the warning", func() bool { return told() > 0 })
	start(3, "process.roles=broker", fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d", ports+3), fmt.Sprintf("controller.quorum.bootstrap.servers=127.0.0.1:%d", ports+1))
	if n := told(); n != 1 {
		t.Errorf("it was told %d times", n)
	}
}

// TestDropsAreTriedAgain: offsets of deleted topics go also if the coordinator was
// loading when the topics went.
func TestDropsAreTriedAgain(t *testing.T) {
	b := startBroker(t, t.TempDir(), "offsets.topic.num.partitions=1", "group.initial.rebalance.delay.ms=0")
	defer stopBroker(t, b)
	g := &groupAPI{api: &api{t: t, b: b, addr: b.Addr()}, c: rawDial(t, b), group: "g"}
	g.ready("g")
	topic, id := g.topic("read", 1)
	if code := g.c.call(commitOffset("g", "", -1, topic, id, 0, 5), 8).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatal(protocol.CodeName(code))
	}
	d := &topicDrop{g: b.groups, h: b.groups.led()[0], topics: []string{topic}, since: b.rt.Now().Wall + 1}
	d.Answered(&coordinator.Call{Code: protocol.CodeNotCoordinator})
	if got := g.fetch(8, topic, id, 0).Offset; got != 5 {
		t.Fatalf("%d", got)
	}
	d.Answered(&coordinator.Call{Code: protocol.CodeCoordinatorLoadInProgress})
	eventually(t, "the offset is dropped", func() bool { return g.fetch(8, topic, id, 0).Offset == -1 })
	if d.tries.Load() != 1 {
		t.Errorf("%d tries", d.tries.Load())
	}
	d.tries.Store(dropTries)
	d.Answered(&coordinator.Call{Code: protocol.CodeCoordinatorLoadInProgress}) // it gives up
}
