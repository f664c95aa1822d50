package integration

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Two ways to lose the truth, and a third: the stories of KIP-101 and KIP-279,
// played by real processes. Two brokers and a controller that stays.

func pair(t *testing.T, set ...string) (c *cluster, a, b *member) {
	t.Helper()
	c = startCluster(t, clusterSpec{roles: []string{brokerOnly, brokerOnly, controllerOnly}, proxied: true,
		set: append([]string{"default.replication.factor=2", "min.insync.replicas=1", "auto.leader.rebalance.enable=false"}, set...)})
	return c, c.members[0], c.members[1]
}

// write appends one batch of n records to a partition through one node, with
// acks=all or, as one, acks=1.
func (m *member) write(p tp, acks int16, n int, producer int32) (offset int64) {
	m.t.Helper()
	want := kgo.AllISRAcks() // the client overwrites the request's
	if acks == 1 {
		want = kgo.LeaderAck()
	}
	cl := m.c.client(kgo.DisableIdempotentWrite(), kgo.RequiredAcks(want))
	defer cl.Close()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 10_000
	var id [16]byte
	eventually(m.t, 30*time.Second, fmt.Sprintf("node %d knows %v", m.id, p), func() (known bool) {
		var err error
		id, err = m.topicID(cl, p.topic)
		return err == nil
	})
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = p.topic, id
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = p.n, batchOf(producer, n)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	eventually(m.t, 30*time.Second, fmt.Sprintf("node %d takes a record of %v", m.id, p), func() bool {
		resp, err := m.ask(cl, req)
		if err != nil {
			m.t.Fatal(err)
		}
		got := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		switch got.ErrorCode {
		case 0:
			offset = got.BaseOffset
			return true
		case 3, 6, 100: // the news of its leadership has not come yet; nothing was stored
			return false
		}
		m.t.Fatalf("produce to node %d: code %d", m.id, got.ErrorCode)
		return false
	})
	return offset
}

// producersOf reads a partition and says whose record is at each offset.
func (c *cluster) producersOf(p tp) (all []int32) {
	c.t.Helper()
	for i, r := range c.readToEnd(p) {
		if r.broken != "" || r.offset != int64(i) {
			c.t.Errorf("%v offset %d is record number %d %s", p, r.offset, i, r.broken)
		}
		all = append(all, r.s.producer)
	}
	return all
}

func (c *cluster) wantProducers(p tp, want ...int32) {
	c.t.Helper()
	var got []int32
	eventually(c.t, 30e9, "as many records as are there", func() bool {
		got = c.producersOf(p)
		return len(got) >= len(want)
	})
	if !slices.Equal(got, want) {
		c.t.Errorf("%v holds records of %v, want %v", p, got, want)
	}
}

// losePower makes a stopped node's directories look as if the kernel had ended
// too.
func (m *member) losePower() {
	m.t.Helper()
	files, err := filepath.Glob(filepath.Join(m.dir, "*", ".tidemark_run"))
	if err != nil || len(files) == 0 {
		m.t.Fatalf("no run records in %s: %v", m.dir, err)
	}
	boot := regexp.MustCompile(`"bootId":"[^"]*"`)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			m.t.Fatal(err)
		}
		if !boot.Match(text) {
			m.t.Fatalf("%s: %s", f, text)
		}
		line, _, _ := bytes.Cut(boot.ReplaceAll(text, []byte(`"bootId":"before"`)), []byte("\n"))
		sum := crc32.Checksum(line, crc32.MakeTable(crc32.Castagnoli))
		if err := os.WriteFile(f, fmt.Appendf(line, "\n%08x\n", sum), 0o644); err != nil {
			m.t.Fatal(err)
		}
	}
}

// cutAfter removes a stopped node's batches of a partition from an offset on.
func (m *member) cutAfter(p tp, offset int64) {
	m.t.Helper()
	dir, err := m.replicaDir(p)
	if err != nil {
		m.t.Fatal(err)
	}
	r, err := readReplica("", dir)
	if err != nil {
		m.t.Fatal(err)
	}
	size := 0
	for _, b := range r.batches {
		if b.base < offset {
			size += len(b.bytes)
		}
	}
	files := segments(m.t, dir)
	if len(files) != 1 {
		m.t.Fatalf("segments %v", files)
	}
	if err := os.Truncate(files[0], int64(size)); err != nil {
		m.t.Fatal(err)
	}
}

// TestRestartedFollowerKeepsWhatItHas (KIP-101, loss): a follower that has a
// record, and does not know yet that it is committed, restarts while the leader
// dies. It must not cut the record.
func TestRestartedFollowerKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	c, a, b := pair(t)
	p := c.create("loss", 1, []int32{2, 1})[0]
	c.awaitISR(p, 2)
	b.write(p, -1, 1, 1)
	b.write(p, -1, 1, 2) // acknowledged by a's next fetch, whose answer would tell a
	c.net.set(rule{held: true}, way{b.id, a.id})
	a.kill()
	a.start()
	// What it asks for says that it has both; it hears no answer.
	c.awaitISR(p, 2)
	b.kill()
	s := c.await(p, 90e9, "node 1 leads", func(s state) bool { return s.leader == int32(a.id) })
	c.net.heal()
	c.wantProducers(p, 1, 2)
	if offset := a.write(p, 1, 1, 3); offset != 2 {
		t.Errorf("the third record is at offset %d", offset)
	}
	b.start()
	c.awaitISR(p, 2)
	c.wantProducers(p, 1, 2, 3)
	c.compare([]tp{p})
	t.Logf("node 1 leads in epoch %d", s.epoch)
}

// TestPowerLossDoesNotDiverge (KIP-101, divergence): both replicas lose power,
// and one of them its last record, an acknowledged one. That one leads when it
// was the last in sync, which min.insync.replicas=1 allows, and then the other
// must cut; else it waits for the other, and nothing is lost.
func TestPowerLossDoesNotDiverge(t *testing.T) {
	t.Parallel()
	t.Run("the one with less was the last in sync", func(t *testing.T) {
		t.Parallel()
		c, a, b, p := powerLost(t, 0)
		b.start()
		c.await(p, 90e9, "node 2 leads", func(s state) bool { return s.leader == int32(b.id) })
		if offset := b.write(p, 1, 1, 3); offset != 1 {
			t.Errorf("the record after the loss is at offset %d", offset)
		}
		a.start()
		c.awaitISR(p, 2)
		c.wantProducers(p, 1, 3)
		c.compare([]tp{p})
	})
	t.Run("the one with more was the last in sync", func(t *testing.T) {
		t.Parallel()
		c, a, b, p := powerLost(t, 1)
		b.start()
		// It serves, and leads nothing, however long it waits alone.
		pause(time.Second)
		if s, err := c.state(p); err != nil || s.leader == int32(b.id) {
			t.Errorf("node 2 leads without its last record: %+v, %v", s, err)
		}
		a.start()
		c.awaitISR(p, 2)
		c.wantProducers(p, 1, 2)
		c.compare([]tp{p})
	})
}

// powerLost is a pair with two acknowledged records on both, of which both have
// lost power and the second, b, its last record. The broker of the given index
// died before the other.
func powerLost(t *testing.T, first int) (c *cluster, a, b *member, p tp) {
	t.Helper()
	c, a, b = pair(t, "tidemark.recovery.wait.ms=500")
	p = c.create("diverge", 1, []int32{1, 2})[0]
	c.awaitISR(p, 2)
	a.write(p, -1, 1, 1)
	a.write(p, -1, 1, 2)
	one, other := c.members[first], c.members[1-first]
	one.kill()
	c.await(p, 60e9, "the other is alone in sync", func(s state) bool { return len(s.isr) == 1 && s.leader == int32(other.id) })
	other.kill()
	a.losePower()
	b.losePower()
	b.cutAfter(p, 1)
	return c, a, b, p
}

// lead moves a partition's leadership to a node by way of its assignment.
func (c *cluster) lead(p tp, to int32, other int32) state {
	c.t.Helper()
	re := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	re.TimeoutMillis = 10_000
	rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	rt.Topic = p.topic
	rp := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	rp.Partition, rp.Replicas = p.n, []int32{to, other}
	rt.Partitions = append(rt.Partitions, rp)
	re.Topics = append(re.Topics, rt)
	if resp, err := c.ask(re); err != nil || resp.(*kmsg.AlterPartitionAssignmentsResponse).ErrorCode != 0 {
		c.t.Fatalf("reassign: %+v, %v", resp, err)
	}
	el := kmsg.NewPtrElectLeadersRequest()
	el.TimeoutMillis = 10_000
	et := kmsg.NewElectLeadersRequestTopic()
	et.Topic, et.Partitions = p.topic, []int32{p.n}
	el.Topics = append(el.Topics, et)
	if resp, err := c.ask(el); err != nil || resp.(*kmsg.ElectLeadersResponse).ErrorCode != 0 {
		c.t.Fatalf("elect: %+v, %v", resp, err)
	}
	return c.await(p, 30e9, fmt.Sprintf("node %d leads", to), func(s state) bool { return s.leader == to })
}

// TestLeadershipGoesAndComesBack (KIP-279): leadership goes from a to b and back
// before either has fetched from the other; both have written. The follower must
// cut at the right place and not at its own or the leader's end.
func TestLeadershipGoesAndComesBack(t *testing.T) {
	t.Parallel()
	c, a, b := pair(t)
	p := c.create("back", 1, []int32{1, 2})[0]
	c.awaitISR(p, 2)
	a.write(p, -1, 10, 1)
	c.net.cut(a.id, b.id)
	want := slices.Repeat([]int32{1}, 10)
	add := func(m *member, n int, producer int32, at int64) {
		t.Helper()
		if offset := m.write(p, 1, n, producer); offset != at {
			t.Errorf("node %d wrote at offset %d, want %d", m.id, offset, at)
		}
	}
	add(a, 2, 2, 10)
	first := c.lead(p, int32(b.id), int32(a.id))
	if len(first.isr) != 2 {
		t.Fatalf("the ISR is %v: this story needs both in it", first.isr)
	}
	add(b, 4, 3, 10)
	second := c.lead(p, int32(a.id), int32(b.id))
	if len(second.isr) != 2 || second.epoch <= first.epoch {
		t.Fatalf("%+v after %+v", second, first)
	}
	add(a, 4, 4, 12)
	c.net.heal()
	want = append(want, 2, 2, 4, 4, 4, 4)
	c.wantProducers(p, want...)
	if offset := a.write(p, -1, 1, 5); offset != 16 {
		t.Errorf("the last record is at offset %d", offset)
	}
	c.wantProducers(p, append(want, 5)...)
	c.awaitISR(p, 2)
	c.compare([]tp{p})
}
