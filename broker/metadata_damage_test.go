package broker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller/quorum"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/partition/host"
)

// onDisk starts a broker that is its own quorum on a disk in memory.
func onDisk(t *testing.T, disk *memfs.FS) (*Broker, error) {
	settings, _, _, err := config.Load(config.Sources{Flags: []string{
		"listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=/data,/more", "tidemark.kept.dir=/kept",
		"metadata.log.segment.bytes=8388608", "metadata.log.max.record.bytes.between.snapshots=600",
	}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Config{Settings: settings, FS: disk, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return b, b.Start(ctx)
}

// damages are what may have become of a file's bytes; stale is what they were once.
func damages(b, stale []byte) map[string][]byte {
	out := map[string][]byte{"emptied": nil}
	if stale != nil && string(stale) != string(b) {
		out["an older copy"] = stale
	}
	if len(b) == 0 {
		return out
	}
	for name, at := range map[string]int{"begin": 0, "first quarter": len(b) / 4, "middle": len(b) / 2, "end": len(b) - 1} {
		flipped := append([]byte(nil), b...)
		flipped[at] ^= 0x10
		out["flipped at the "+name] = flipped
		out["cut at the "+name] = append([]byte(nil), b[:at]...)
		zeroed := append([]byte(nil), b...)
		clear(zeroed[at:])
		out["zero from the "+name] = zeroed
	}
	return out
}

// TestDamagedMetadata: whatever has become of a file of the metadata, a broker that
// is its own quorum starts and serves what is on its disks. Only a meta.properties that
// is whole and names another cluster, node or directory refuses the start: then the
// directory may be another's.
func TestDamagedMetadata(t *testing.T) {
	disk := memfs.New()
	b, err := onDisk(t, disk)
	if err != nil {
		t.Fatal(err)
	}
	create := func(name string, partitions int32) {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 10_000
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, 1
		req.Topics = append(req.Topics, rt)
		if code := rawDial(t, b).call(req, 5).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
			t.Fatalf("create %s: code %d", name, code)
		}
	}
	create("first", 2)
	early := disk.Fork()
	create("second", 2)
	create("third", 2)
	for _, topic := range []string{"first", "second", "third"} {
		if code := rawDial(t, b).produceAll(topic, plainBatch(1, 10)).ErrorCode; code != 0 {
			t.Fatalf("produce to %s: code %d", topic, code)
		}
	}
	stopBroker(t, b)
	var files []string
	for _, dir := range []string{"/data/__cluster_metadata-0", "/data", "/more"} {
		names, err := disk.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			path := filepath.Join(dir, n)
			if info, err := disk.Stat(path); err == nil && !info.IsDir && (strings.Contains(path, "metadata") || n == "meta.properties") {
				files = append(files, path)
			}
		}
	}
	t.Log(files)
	n := 0
	for _, path := range files {
		was, err := vfs.ReadFile(disk, path)
		if err != nil {
			t.Fatal(err)
		}
		stale, _ := vfs.ReadFile(early, path)
		for what, text := range damages(was, stale) {
			if ext := filepath.Ext(path); (ext == ".index" || ext == ".timeindex" || ext == ".seal") && !strings.HasSuffix(what, "middle") {
				continue // the log package's tests have these
			}
			hurt := disk.Fork()
			if err := vfs.WriteFileAtomic(hurt, path, text); err != nil {
				t.Fatal(err)
			}
			servesAll(t, fmt.Sprintf("%s %s", path, what), hurt)
			n++
		}
		gone := disk.Fork()
		if err := gone.Remove(path); err != nil {
			t.Fatal(err)
		}
		servesAll(t, path+" gone", gone)
		n++
	}
	t.Logf("%d starts", n)
}

func servesAll(t *testing.T, what string, disk *memfs.FS) {
	t.Helper()
	b, err := onDisk(t, disk)
	foreign := errors.Is(err, host.ErrForeignDir) || errors.Is(err, quorum.ErrStranger)
	if foreign && strings.Contains(what, "meta.properties flipped") {
		t.Logf("%s: %v", what, err)
		return
	}
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	defer stopBroker(t, b)
	for _, topic := range []string{"first", "second", "third"} {
		if s := b.replicas.Get(topic, 0); s == nil || s.State().Role != partition.Leader || s.State().LogEnd != 1 {
			t.Errorf("%s: %s-0 is not served", what, topic)
			continue
		}
		if code := rawDial(t, b).produceAll(topic, plainBatch(1, 10)).ErrorCode; code != 0 {
			t.Errorf("%s: produce to %s: code %d", what, topic, code)
		}
	}
}
