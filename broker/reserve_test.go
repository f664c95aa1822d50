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

// TestWhatMakesRoomIsStored: on a disk without a free byte topics are deleted and
// records too; what would take room is refused, and what was given for the others is
// set aside again when there is room.
func TestWhatMakesRoomIsStored(t *testing.T) {
	settings, _, _, err := config.Load(config.Sources{Flags: []string{
		"listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=/data", "tidemark.kept.dir=/kept", "delete.topic.enable=true",
	}})
	if err != nil {
		t.Fatal(err)
	}
	disk := memfs.New()
	b, err := New(Config{Settings: settings, FS: disk, Logger: zaptest.NewLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer stopBroker(t, b)
	c := rawDial(t, b)
	create := func(name string) int16 {
		req := kmsg.NewPtrCreateTopicsRequest()
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, 1, 1
		req.Topics, req.TimeoutMillis = append(req.Topics, rt), 10_000
		return c.call(req, 5).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode
	}
	for _, name := range []string{"a", "b", "c"} {
		if code := create(name); code != 0 {
			t.Fatalf("code %d", code)
		}
		if code := c.produceAll(name, plainBatch(10, 100)).ErrorCode; code != 0 {
			t.Fatalf("code %d", code)
		}
	}
	free, total, err := disk.Free("/data")
	if err != nil {
		t.Fatal(err)
	}
	disk.SetCapacity(total - free)
	fill := func() {
		code := protocol.CodeNone
		for code == protocol.CodeNone {
			code = c.produceAll("c", plainBatch(1, 10)).ErrorCode
		}
		if code != protocol.CodeKafkaStorageError {
			t.Fatalf("code %d", code)
		}
	}
	fill()
	for i, name := range []string{"a", "b"} {
		trim := kmsg.NewPtrDeleteRecordsRequest()
		tt := kmsg.NewDeleteRecordsRequestTopic()
		tp := kmsg.NewDeleteRecordsRequestTopicPartition()
		tp.Offset = int64(1 + i)
		tt.Topic, tt.Partitions = "c", append(tt.Partitions, tp)
		trim.Topics, trim.TimeoutMillis = append(trim.Topics, tt), 10_000
		if got := c.call(trim, 1).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]; got.ErrorCode != 0 || got.LowWatermark != tp.Offset {
			t.Errorf("delete records: %+v", got)
		}
		fill()
		drop := kmsg.NewPtrDeleteTopicsRequest()
		drop.TopicNames, drop.TimeoutMillis = []string{name}, 10_000
		if code := c.call(drop, 4).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode; code != 0 {
			t.Errorf("delete topic: code %d", code)
		}
		fill()
	}
	if code := create("d"); code != protocol.CodeKafkaStorageError {
		t.Errorf("create topic: code %d", code)
	}
	size := func() int64 {
		info, err := disk.Stat("/data/" + reserveFile)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size
	}
	if size() == reserveMax {
		t.Error("nothing of the reserve was given")
	}
	disk.SetCapacity(0)
	b.reserve.Deliver(b.rt.Now())
	if size() != reserveMax {
		t.Errorf("the reserve has %d bytes after there was room", size())
	}
}

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
