package broker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap/zaptest"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/protocol"
)

func produceN(t *testing.T, cl *kgo.Client, topic string, from, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var rs []*kgo.Record
	for i := range n {
		rs = append(rs, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", from+i), Value: fmt.Appendf(nil, "v%d", from+i)})
	}
	if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

// consumeN reads n records of partition 0 from the start and checks their
// values.
func consumeN(t *testing.T, b *Broker, topic string, n int) {
	t.Helper()
	cl := client(t, b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for got := 0; got < n; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("fetch after %d of %d records: %v", got, n, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if want := fmt.Sprintf("v%d", got); string(r.Value) != want || r.Offset != int64(got) {
				t.Fatalf("record %d: offset %d value %s, want value %s", got, r.Offset, r.Value, want)
			}
			got++
		})
	}
}

func TestProduceConsumeRestart(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, dir)
	cl := client(t, b, kgo.AllowAutoTopicCreation())
	produceN(t, cl, "orders", 0, 1000)
	consumeN(t, b, "orders", 1000)
	stopBroker(t, b)

	b = startBroker(t, dir)
	produceN(t, client(t, b), "orders", 1000, 10)
	consumeN(t, b, "orders", 1010)
	stopBroker(t, b)
}

func TestLeaderEpochRisesAtEachStart(t *testing.T) {
	dir := t.TempDir()
	last := int32(-1)
	for range 3 {
		b := startBroker(t, dir)
		cl := client(t, b, kgo.AllowAutoTopicCreation())
		produceN(t, cl, "epochs", 0, 1)
		req := kmsg.NewPtrMetadataRequest()
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr("epochs")
		req.Topics = append(req.Topics, rt)
		p := ask[*kmsg.MetadataResponse](t, cl, req).Topics[0].Partitions[0]
		if p.Leader != 1 || p.LeaderEpoch <= last {
			t.Fatalf("leader %d epoch %d after epoch %d", p.Leader, p.LeaderEpoch, last)
		}
		last = p.LeaderEpoch
		stopBroker(t, b)
	}
}

// TestFirstStartCutShortKeepsTheCluster: other nodes may have seen the image of a
// voter that dies before it wrote meta.properties, so that its cluster must be the
// same one after that.
func TestFirstStartCutShortKeepsTheCluster(t *testing.T) {
	disk := memfs.New()
	life := func(disk vfs.FS) (cluster string, err error) {
		settings, _, _, err := config.Load(config.Sources{Flags: []string{
			"process.roles=controller", "node.id=1", "listeners=CONTROLLER://127.0.0.1:0",
			"controller.listener.names=CONTROLLER", "log.dirs=/data", "tidemark.kept.dir=/kept",
		}})
		if err != nil {
			t.Fatal(err)
		}
		b, err := New(Config{Settings: settings, FS: disk, Logger: zaptest.NewLogger(t)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err = b.Start(ctx); err == nil {
			defer stopBroker(t, b)
		}
		return b.ClusterID(), err
	}
	first, err := life(faultfs.Wrap(disk, faultfs.When(faultfs.And(faultfs.PathMatch("*meta.properties*"), faultfs.Mutations()), faultfs.EIO())))
	if err == nil || first == "" {
		t.Fatalf("cluster %q, %v: the start was not cut short between its bootstrap and meta.properties", first, err)
	}
	second, err := life(disk.KillClone(memfs.Kill{}))
	if err != nil || second != first {
		t.Errorf("cluster %q after %q, %v", second, first, err)
	}
}

func TestSecondProcessOnTheSameDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, dir)
	defer stopBroker(t, b)
	second := newBroker(t, dir)
	if err := second.Start(context.Background()); err == nil {
		t.Fatal("a second broker started on the same directory")
	} else {
		t.Log(err)
	}
}

// TestFullDiskRefusesChangesOfMetadata: a node of its own goes on while its disk is
// full, and says to administrators what is wrong.
func TestFullDiskRefusesChangesOfMetadata(t *testing.T) {
	disk := memfs.New()
	settings, _, _, err := config.Load(config.Sources{Flags: []string{
		"listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=/data", "tidemark.kept.dir=/kept", "broker.heartbeat.interval.ms=100", "broker.session.timeout.ms=1000",
	}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Config{Settings: settings, FS: disk, Logger: zaptest.NewLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer stopBroker(t, b)
	create := func(name string) int16 {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 10_000
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, 1, 1
		req.Topics = append(req.Topics, rt)
		return rawDial(t, b).call(req, 5).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode
	}
	if code := create("before"); code != 0 {
		t.Fatalf("code %d", code)
	}
	free, total, err := disk.Free("/data")
	if err != nil {
		t.Fatal(err)
	}
	disk.SetCapacity(total - free + 4096)
	if code := create("during"); code != protocol.CodeKafkaStorageError {
		t.Errorf("code %d", code)
	}
	c := rawDial(t, b)
	if code := c.produceAll("before", plainBatch(1, 100)).ErrorCode; code != 0 {
		t.Errorf("a produce that fits: code %d", code)
	}
	disk.SetCapacity(0)
	if code := create("after"); code != 0 || b.Failure() != nil {
		t.Errorf("code %d, %v", code, b.Failure())
	}
}
