package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/compat/proc"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// numbered is a batch of ten records that say which they are.
func numbered(from int) []byte {
	b := record.NewBuilder(record.Options{})
	for i := range 10 {
		b.Append(1_700_000_000_000+model.Timestamp(from+i), nil, fmt.Appendf(nil, "record %d", from+i))
	}
	return b.Build()
}

// TestLastReplicaServesBelowItsDamage: a byte in the middle of a topic's only replica is
// another one. The broker starts; consumers read what lies in front of it, get an error
// there, and never anything else; it takes no writes, and says so wherever one looks;
// everything else is served. Once an operator has cut it there it is as any other.
func TestLastReplicaServesBelowItsDamage(t *testing.T) {
	t.Parallel()
	port, err := proc.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	page := fmt.Sprintf("127.0.0.1:%d", port)
	n := newNode(t, "tidemark.http.listen="+page)
	n.start()
	n.topic("t", 2)
	n.topic("good", 1)
	cl := n.client()
	for i := range 40 {
		for _, p := range []tp{{"t", 0}, {"t", 1}, {"good", 0}} {
			if _, code, err := n.produceOnce(cl, p, numbered(10*i)); err != nil || code != 0 {
				t.Fatal(code, err)
			}
		}
	}
	cl.Close()
	n.p.Kill()
	segment := segments(t, n.partitionDir("t", 0))[0]
	flipInBatch(t, segment, 200)
	before := hashes(t, n.partitionDir("t", 0))
	n.start()

	below(t, n, "t", 0, 200, true)
	cl = n.client()
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for _, p := range []tp{{"t", 1}, {"good", 0}} {
		if offset, code, err := n.produceOnce(cl, p, numbered(400)); err != nil || code != 0 || offset != 400 {
			t.Errorf("%v: offset %d, code %d, %v", p, offset, code, err)
		}
		if bytes, code, err := n.fetchOnce(cl, p, 0, 1<<20); err != nil || code != 0 || bytes == 0 {
			t.Errorf("%v: %d bytes, code %d, %v", p, bytes, code, err)
		}
	}
	if _, code, err := n.produceOnce(cl, tp{"t", 0}, numbered(400)); err != nil || code != 56 {
		t.Errorf("a write gets code %d, %v", code, err)
	}
	for _, from := range []int64{200, 205, 399, 400, 5000} {
		if bytes, code, err := n.fetchOnce(cl, tp{"t", 0}, from, 1<<20); err != nil || code != 56 || bytes != 0 {
			t.Errorf("a fetch at %d gets %d bytes, code %d, %v", from, bytes, code, err)
		}
	}
	// Nothing comes there that could be waited for.
	id, err := n.topicID(cl, "t")
	if err != nil {
		t.Fatal(err)
	}
	wait := kmsg.NewPtrFetchRequest()
	wait.MaxWaitMillis, wait.MinBytes, wait.MaxBytes, wait.SessionEpoch, wait.ReplicaState.ID = 60_000, 1<<20, 1<<20, -1, -1
	wt, wp := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	wt.Topic, wt.TopicID, wp.FetchOffset, wp.PartitionMaxBytes = "t", id, 195, 1<<20
	wt.Partitions = append(wt.Partitions, wp)
	wait.Topics = append(wait.Topics, wt)
	if r, err := n.ask(cl, wait); err != nil {
		t.Errorf("a fetch that asks for more than there is: %v", err)
	} else if p := r.(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		t.Errorf("a fetch that asks for more than there is: code %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
	ends, err := adm.ListEndOffsets(t.Context(), "t")
	if o, _ := ends.Lookup("t", 0); err != nil || o.Err != nil || o.Offset != 200 {
		t.Errorf("the latest offset is %+v, %v", o, err)
	}
	late, err := adm.ListOffsetsAfterMilli(t.Context(), 1_700_000_000_150, "t")
	if o, _ := late.Lookup("t", 0); err != nil || o.Err != nil || o.Offset != 150 {
		t.Errorf("the offset of a time is %+v, %v", o, err)
	}
	dirs, err := n.ask(cl, kmsg.NewPtrDescribeLogDirsRequest())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, topic := range dirs.(*kmsg.DescribeLogDirsResponse).Dirs[0].Topics {
		for _, p := range topic.Partitions {
			if topic.Topic == "t" && p.Partition == 0 {
				found = p.OffsetLag == 200 && p.Size > 0
			}
		}
	}
	if !found {
		t.Errorf("log directories are described as %+v", dirs)
	}
	if said := pageOf(t, page, "readyz"); !strings.Contains(said, "t-0 is damaged, has no better copy, and serves [0, 200) to readers only") {
		t.Errorf("/readyz says %s", said)
	}
	if said := pageOf(t, page, "metrics"); !strings.Contains(said, "tidemark_partitions_readable_below_damage 1") ||
		!strings.Contains(said, `tidemark_partition_readable_below{partition="0",topic="t"} 200`) {
		t.Errorf("/metrics doesn't say it: %s", linesWith(said, "readable_below"))
	}
	if said := n.p.Stderr.String(); !strings.Contains(said, "it is read below the damage and takes no writes") {
		t.Errorf("no word about it:\n%s", said)
	}
	n.alive()

	n.stop()
	for name, sum := range before {
		if hashes(t, n.partitionDir("t", 0))[name] != sum {
			t.Errorf("%s was touched", name)
		}
	}
	out, err := exec.Command(program, "log", "repair", "--cut", "--yes", "--kept-dir", n.dir+"/kept", n.partitionDir("t", 0)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	n.start()
	cl = n.client()
	defer cl.Close()
	if offset, code, err := n.produceOnce(cl, tp{"t", 0}, numbered(200)); err != nil || code != 0 || offset != 200 {
		t.Errorf("after it was mended: offset %d, code %d, %v", offset, code, err)
	}
	below(t, n, "t", 0, 210, false)
}

// TestDamagedCoordinator: of a damaged partition of __consumer_offsets not half the groups
// are coordinated: who asks is told that nobody does. The groups of other partitions are
// served.
func TestDamagedCoordinator(t *testing.T) {
	t.Parallel()
	n := newNode(t, "offsets.topic.num.partitions=2")
	n.start()
	n.topic("t", 1)
	cl := n.client()
	adm := kadm.NewClient(cl)
	groups := []string{"a", "b"} // in different partitions
	for i := range 20 {
		for _, g := range groups {
			commitFor(t, adm, g, int64(i))
		}
	}
	cl.Close()
	n.p.Kill()
	flipInBatch(t, segments(t, n.partitionDir("__consumer_offsets", int32('a'%2)))[0], 10)
	n.start()
	cl = n.client()
	defer cl.Close()
	adm = kadm.NewClient(cl)
	if at := offsetOf(t, adm, "b"); at != 19 {
		t.Errorf("the other group has committed %d, want 19", at)
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"a", "b"}
	r, err := n.ask(cl, find)
	if err != nil {
		t.Fatal(err)
	}
	if c := r.(*kmsg.FindCoordinatorResponse).Coordinators; len(c) != 2 || c[0].ErrorCode != kerr.CoordinatorNotAvailable.Code || c[1].ErrorCode != 0 {
		t.Errorf("coordinators %+v", c)
	}
	fetch := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = "a"
	fetch.Groups = append(fetch.Groups, g)
	if r, err = n.ask(cl, fetch); err != nil {
		t.Fatal(err)
	}
	if got := r.(*kmsg.OffsetFetchResponse).Groups[0]; got.ErrorCode != kerr.CoordinatorNotAvailable.Code || len(got.Topics) != 0 {
		t.Errorf("its offsets %+v", got)
	}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.Generation = "a", -1
	ct, cp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	ct.Topic, cp.Offset = "t", 5
	if topics, err := adm.ListTopics(t.Context(), "t"); err == nil {
		ct.TopicID = topics["t"].ID
	}
	ct.Partitions = append(ct.Partitions, cp)
	commit.Topics = append(commit.Topics, ct)
	if r, err = n.ask(cl, commit); err != nil {
		t.Fatal(err)
	}
	if code := r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != kerr.CoordinatorNotAvailable.Code {
		t.Errorf("a commit gets code %d", code)
	}
	if r, err = n.ask(cl, kmsg.NewPtrListGroupsRequest()); err != nil {
		t.Fatal(err)
	}
	if code := r.(*kmsg.ListGroupsResponse).ErrorCode; code != kerr.CoordinatorNotAvailable.Code {
		t.Errorf("the groups are listed with code %d", code)
	}
	below(t, n, "__consumer_offsets", int32('a'%2), 10, true)
}

// flipInBatch changes a byte of the records of the batch that holds an offset.
func flipInBatch(t *testing.T, segment string, offset int64) {
	t.Helper()
	file, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	pos := 0
	for it := record.NewIter(file); it.Next(); {
		b := it.Batch()
		if int64(b.LastOffset()) >= offset {
			file[pos+b.Size()-5] ^= 0x20
			if err := os.WriteFile(segment, file, 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		pos += b.Size()
	}
	t.Fatalf("no offset %d in %s", offset, segment)
}

// below has real consumers read a partition, and wants the records below an offset and
// nothing else of them. damaged: franz-go tells that there is an error behind them.
func below(t *testing.T, n *node, topic string, partition int32, end int, damaged bool) {
	t.Helper()
	cl := n.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}),
		kgo.KeepRetryableFetchErrors())
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	next, errs := 0, 0
	for ctx.Err() == nil && (next < end || damaged && errs == 0) {
		fetches := cl.PollFetches(ctx)
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != int64(next) || topic == "t" && string(r.Value) != fmt.Sprintf("record %d", next) {
				t.Errorf("record %q at %d, want record %d", r.Value, r.Offset, next)
			}
			next++
		})
		fetches.EachError(func(_ string, _ int32, err error) {
			if errs++; !errors.Is(err, kerr.KafkaStorageError) {
				t.Errorf("the consumer gets %v", err)
			}
		})
	}
	if next != end || (errs > 0) != damaged {
		t.Errorf("read up to %d with %d errors, want %d", next, errs, end)
	}
	if topic != "t" {
		return
	}
	out, err := exec.CommandContext(ctx, "kcat", "-C", "-b", n.addr, "-t", topic, "-p", fmt.Sprint(partition), "-o", "beginning", "-c", fmt.Sprint(end), "-q").CombinedOutput()
	var missing *exec.Error
	if errors.As(err, &missing) {
		return
	}
	if lines := strings.Count(string(out), "\n"); err != nil || lines != end || !strings.HasSuffix(string(out), fmt.Sprintf("record %d\n", end-1)) {
		t.Errorf("kcat reads %d lines, %v: %.200s", lines, err, out)
	}
}

func linesWith(page, what string) (found string) {
	for _, line := range strings.Split(page, "\n") {
		if strings.Contains(line, what) {
			found += line + "\n"
		}
	}
	return found
}

func pageOf(t *testing.T, addr, path string) string {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
