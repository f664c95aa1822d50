package broker

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/record"
)

// envAddr names a running broker, node 1 of a cluster of one, that the tests of
// the APIs talk to instead of one of their own. That is how their expectations
// were checked against Apache Kafka 4.3.1.
const envAddr = "TIDEMARK_TEST_ADDR"

// api is a broker as a client on a raw connection sees it.
type api struct {
	t      *testing.T
	b      *Broker // nil for a broker of another process
	addr   string
	suffix string
}

func newAPI(t *testing.T, set ...string) *api {
	t.Helper()
	if addr := os.Getenv(envAddr); addr != "" {
		return &api{t: t, addr: addr, suffix: fmt.Sprintf("-%08x", rand.Uint32())}
	}
	b := startBroker(t, t.TempDir(), set...)
	t.Cleanup(func() { stopBroker(t, b) })
	return &api{t: t, b: b, addr: b.Addr()}
}

// kafka reports whether the broker is Apache Kafka, for the few places where we
// differ on purpose.
func (a *api) kafka() bool { return a.b == nil }

// name makes a topic's name unique on a broker that lives longer than the test.
func (a *api) name(base string) string { return base + a.suffix }

func (a *api) dial() *rawConn {
	a.t.Helper()
	c, err := net.Dial("tcp", a.addr)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		a.t.Fatal(err)
	}
	return &rawConn{t: a.t, c: c}
}

// topic creates a topic with settings "key=value" and returns its name and id.
func (a *api) topic(base string, partitions int32, configs ...string) (string, model.TopicID) {
	a.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = a.name(base), partitions, 1
	for _, kv := range configs {
		k, v, _ := strings.Cut(kv, "=")
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = k, &v
		rt.Configs = append(rt.Configs, rc)
	}
	req.Topics = append(req.Topics, rt)
	got := a.dial().call(req, 7).(*kmsg.CreateTopicsResponse).Topics[0]
	if got.ErrorCode != 0 {
		a.t.Fatalf("create topic %s: %v", rt.Topic, protocol.Code(got.ErrorCode))
	}
	a.await(rt.Topic, partitions)
	return rt.Topic, got.TopicID
}

// await waits until the broker has a leader for every partition of the topic,
// which on Apache Kafka comes some milliseconds after the topic.
func (a *api) await(topic string, partitions int32) {
	a.t.Helper()
	c := a.dial()
	eventually(a.t, "every partition of "+topic+" has a leader", func() bool {
		rt := c.metadata(9, false, topic).Topics[0]
		for _, p := range rt.Partitions {
			if p.ErrorCode != 0 {
				return false
			}
		}
		if rt.ErrorCode != 0 || len(rt.Partitions) != int(partitions) {
			return false
		}
		for n := range partitions {
			if c.listOffset(10, topic, n, -1, 0).ErrorCode != 0 {
				return false
			}
		}
		return true
	})
}

// eventually polls until it is so, at most ten seconds.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-deadline.C:
			t.Fatalf("not within ten seconds: %s", what)
		case <-tick.C:
		}
	}
}

func (c *rawConn) metadata(version int16, create bool, topics ...string) *kmsg.MetadataResponse {
	c.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = create
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, n := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &n
		req.Topics = append(req.Topics, rt)
	}
	return c.call(req, version).(*kmsg.MetadataResponse)
}

func listOffsets(topic string, partition int32, ts int64, isolation int8) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = isolation
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp = partition, ts
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func (c *rawConn) listOffset(version int16, topic string, partition int32, ts int64, isolation int8) kmsg.ListOffsetsResponseTopicPartition {
	c.t.Helper()
	return c.call(listOffsets(topic, partition, ts, isolation), version).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
}

// produce appends a batch with acks=all and returns its base offset.
func (c *rawConn) produce(topic string, partition int32, batch record.Batch) int64 {
	c.t.Helper()
	p := c.call(produceTo(topic, partition, -1, batch), 11).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		c.t.Fatalf("produce to %s-%d: %v", topic, partition, protocol.Code(p.ErrorCode))
	}
	return p.BaseOffset
}

// plainBatch is a batch of n records of a size.
func plainBatch(n, size int) record.Batch {
	b := record.NewBuilder(record.Options{})
	for range n {
		b.Append(model.Timestamp(time.Now().UnixMilli()), nil, make([]byte, size))
	}
	return b.Build()
}

// versions returns the versions of an API that are served.
func versions(t *testing.T, key int16) (vs []int16) {
	t.Helper()
	api, ok := protocol.Lookup(key)
	if !ok {
		t.Fatalf("API %d is not in the table", key)
	}
	for v := api.ServedMin; v <= api.Max; v++ {
		vs = append(vs, v)
	}
	return vs
}

// TestEveryAPIHasAHandlerAndATest: what is advertised on a client's listener is
// served, and a test of this package sends it.
func TestEveryAPIHasAHandlerAndATest(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		tests.WriteString(strings.ToLower(string(text)))
	}
	for _, api := range protocol.Table() {
		if api.Scope&protocol.OnBroker == 0 {
			continue
		}
		if int(api.Key) >= len(handlers) || handlers[api.Key] == nil {
			t.Errorf("%s (%d) is advertised and has no handler", api.Name, api.Key)
		}
		if !strings.Contains(tests.String(), strings.ToLower("kmsg.NewPtr"+kmsg.NameForKey(api.Key)+"Request(")) {
			t.Errorf("%s (%d) is sent by no test", api.Name, api.Key)
		}
	}
	for key, h := range handlers {
		if _, ok := protocol.Lookup(int16(key)); h != nil && !ok {
			t.Errorf("API %d has a handler and is not in the table", key)
		}
	}
}
