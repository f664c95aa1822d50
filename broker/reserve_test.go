package broker

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap/zaptest"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/protocol"
)

// TestStartsWithoutRoom: a node of its own that is killed on a disk without a free
// byte starts, time after time, and serves what it has; a start with room makes up for
// what the others have taken.
func TestStartsWithoutRoom(t *testing.T) {
	settings, _, _, err := config.Load(config.Sources{Flags: []string{
		"listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=/data", "tidemark.kept.dir=/kept",
	}})
	if err != nil {
		t.Fatal(err)
	}
	disk := memfs.New()
	start := func() *Broker {
		b, err := New(Config{Settings: settings, FS: disk, Logger: zaptest.NewLogger(t)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Start(ctx); err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := start()
	topic := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "t", 1, 1
	topic.Topics, topic.TimeoutMillis = append(topic.Topics, rt), 10_000
	if code := rawDial(t, b).call(topic, 5).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
		t.Fatalf("code %d", code)
	}
	if code := rawDial(t, b).produceAll("t", plainBatch(3, 100)).ErrorCode; code != 0 {
		t.Fatalf("code %d", code)
	}
	for life := range 30 {
		free, total, err := disk.Free("/data")
		if err != nil {
			t.Fatal(err)
		}
		disk = disk.KillClone(memfs.Kill{})
		disk.SetCapacity(total - free)
		_ = b.Stop(context.Background()) // what it was is gone
		b = start()
		code, c := protocol.CodeNone, rawDial(t, b)
		for code == protocol.CodeNone {
			code = c.produceAll("t", plainBatch(1, 100)).ErrorCode
		}
		if code != protocol.CodeKafkaStorageError {
			t.Fatalf("life %d: a produce without room: code %d", life, code)
		}
		if life%10 == 9 {
			_ = b.Stop(context.Background()) // that finds no room either
			disk.SetCapacity(0)
			b = start()
		}
	}
	stopBroker(t, b)
	if info, err := disk.Stat("/data/" + reserveFile); err != nil || info.Size != reserveMax {
		t.Errorf("the reserve has %d bytes, %v", info.Size, err)
	}
}
