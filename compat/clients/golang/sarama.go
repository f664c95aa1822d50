package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// saramaOps drives sarama.
type saramaOps struct {
	addr    []string
	members map[string]*saramaMember
}

func newSarama(addr string) *saramaOps {
	return &saramaOps{addr: []string{addr}, members: map[string]*saramaMember{}}
}

func (s *saramaOps) hello() (string, string) { return "sarama", "github.com/IBM/sarama" }

// config is the client's default, which speaks as a client of Kafka 2.1 would,
// but for what an operation needs.
func (s *saramaOps) config() *sarama.Config {
	c := sarama.NewConfig()
	c.Consumer.Return.Errors = true
	c.Consumer.MaxWaitTime = 200 * time.Millisecond
	c.Metadata.Retry.Max = 20
	c.Metadata.Retry.Backoff = 100 * time.Millisecond
	return c
}

func (s *saramaOps) produce(r *request) ([]ack, error) {
	c := s.config()
	c.Producer.Return.Successes, c.Producer.Return.Errors = true, true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.Flush.Frequency = 20 * time.Millisecond
	c.Producer.MaxMessageBytes = 20_000_000
	c.Producer.Compression = map[string]sarama.CompressionCodec{
		"gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[r.Codec]
	if r.Idempotent {
		c.Producer.Idempotent = true
		c.Net.MaxOpenRequests = 1
	}
	p, err := sarama.NewSyncProducer(s.addr, c)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	ms := make([]*sarama.ProducerMessage, len(r.Records))
	for i, x := range r.Records {
		ms[i] = &sarama.ProducerMessage{Topic: r.Topic, Partition: x.P}
		if x.K != nil {
			ms[i].Key = sarama.ByteEncoder(x.K)
		}
		if x.V != nil {
			ms[i].Value = sarama.ByteEncoder(x.V)
		}
		if x.T != 0 {
			ms[i].Timestamp = time.UnixMilli(x.T)
		}
		for _, h := range x.H {
			ms[i].Headers = append(ms[i].Headers, sarama.RecordHeader{Key: []byte(h.K), Value: h.V})
		}
	}
	err = p.SendMessages(ms)
	failed := map[*sarama.ProducerMessage]error{}
	var list sarama.ProducerErrors
	if errors.As(err, &list) {
		for _, e := range list {
			failed[e.Msg] = e.Err
		}
	} else if err != nil {
		return nil, err
	}
	acks := make([]ack, len(ms))
	for i, m := range ms {
		acks[i] = ack{P: m.Partition, O: m.Offset}
		if e := failed[m]; e != nil {
			acks[i].Error = e.Error()
		}
	}
	return acks, nil
}

func saramaTold(m *sarama.ConsumerMessage) rec {
	out := rec{P: m.Partition, O: m.Offset, T: m.Timestamp.UnixMilli(), K: m.Key, V: m.Value}
	for _, h := range m.Headers {
		out.H = append(out.H, header{string(h.Key), h.Value})
	}
	return out
}

func (s *saramaOps) consume(r *request) ([]rec, error) {
	cl, err := sarama.NewClient(s.addr, s.config())
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	c, err := sarama.NewConsumerFromClient(cl)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var offset int64
	switch special, n := r.position(); special {
	case "earliest":
		offset = sarama.OffsetOldest
	case "latest":
		offset = sarama.OffsetNewest
	case "ts":
		if offset, err = cl.GetOffset(r.Topic, r.Partition, n); err != nil {
			return nil, err
		}
	default:
		offset = n
	}
	pc, err := c.ConsumePartition(r.Topic, r.Partition, offset)
	if errors.Is(err, sarama.ErrOffsetOutOfRange) && r.Reset == "earliest" {
		pc, err = c.ConsumePartition(r.Topic, r.Partition, sarama.OffsetOldest)
	}
	if err != nil {
		return nil, err
	}
	defer pc.Close()
	timer := time.NewTimer(r.within(15 * time.Second))
	defer timer.Stop()
	var got []rec
	for len(got) < r.Count {
		select {
		case m := <-pc.Messages():
			got = append(got, saramaTold(m))
		case e := <-pc.Errors():
			return got, e
		case <-timer.C:
			return got, nil
		}
	}
	return got, nil
}

func (s *saramaOps) offsets(r *request) (start, end, at int64, err error) {
	cl, err := sarama.NewClient(s.addr, s.config())
	if err != nil {
		return
	}
	defer cl.Close()
	for _, q := range []struct {
		time int64
		to   *int64
	}{{sarama.OffsetOldest, &start}, {sarama.OffsetNewest, &end}, {r.T, &at}} {
		if *q.to, err = cl.GetOffset(r.Topic, r.Partition, q.time); err != nil {
			return
		}
	}
	return
}

func (s *saramaOps) admin(do func(a sarama.ClusterAdmin) error) error {
	a, err := sarama.NewClusterAdmin(s.addr, s.config())
	if err != nil {
		return err
	}
	defer a.Close()
	return do(a)
}

func (s *saramaOps) create(r *request) error {
	return s.admin(func(a sarama.ClusterAdmin) error {
		d := &sarama.TopicDetail{NumPartitions: int32(r.Partitions), ReplicationFactor: int16(r.Replication), ConfigEntries: map[string]*string{}}
		for k, v := range r.Configs {
			d.ConfigEntries[k] = &v
		}
		return a.CreateTopic(r.Topic, d, false)
	})
}

func (s *saramaOps) remove(r *request) error {
	return s.admin(func(a sarama.ClusterAdmin) error { return a.DeleteTopic(r.Topic) })
}

func (s *saramaOps) grow(r *request) error {
	return s.admin(func(a sarama.ClusterAdmin) error { return a.CreatePartitions(r.Topic, int32(r.Partitions), nil, false) })
}

func (s *saramaOps) alter(r *request) error {
	return s.admin(func(a sarama.ClusterAdmin) error {
		m := map[string]*string{}
		for k, v := range r.Configs {
			m[k] = &v
		}
		return a.AlterConfig(sarama.TopicResource, r.Topic, m, false)
	})
}

func (s *saramaOps) configs(r *request) (map[string]string, error) {
	out := map[string]string{}
	return out, s.admin(func(a sarama.ClusterAdmin) error {
		all, err := a.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: r.Topic})
		for _, c := range all {
			out[c.Name] = c.Value
		}
		return err
	})
}

func (s *saramaOps) topics(*request) (map[string]int, error) {
	out := map[string]int{}
	return out, s.admin(func(a sarama.ClusterAdmin) error {
		all, err := a.ListTopics()
		for name, t := range all {
			out[name] = int(t.NumPartitions)
		}
		return err
	})
}

// saramaMember is a member of a group. This client calls its user back in a
// goroutine for each partition.
type saramaMember struct {
	group  sarama.ConsumerGroup
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	owns    map[[2]any]bool
	queue   chan *sarama.ConsumerMessage
	session sarama.ConsumerGroupSession
	last    map[[2]any]*sarama.ConsumerMessage
}

func (m *saramaMember) Setup(s sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session, m.owns = s, map[[2]any]bool{}
	for t, ps := range s.Claims() {
		for _, p := range ps {
			m.owns[[2]any{t, p}] = true
		}
	}
	return nil
}

func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session, m.owns = nil, nil
	return nil
}

func (m *saramaMember) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for {
		select {
		case x, ok := <-c.Messages():
			if !ok {
				return nil
			}
			select {
			case m.queue <- x:
			case <-s.Context().Done():
				return nil
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

func (s *saramaOps) join(r *request) error {
	c := s.config()
	c.Metadata.RefreshFrequency = time.Second
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Group.Session.Timeout = 4 * time.Second
	c.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	if r.Instance != "" {
		c.Version = sarama.V2_3_0_0 // the first that knows static members
		c.Consumer.Group.InstanceId = r.Instance
	}
	g, err := sarama.NewConsumerGroup(s.addr, r.Group, c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &saramaMember{group: g, cancel: cancel, done: make(chan struct{}), queue: make(chan *sarama.ConsumerMessage), last: map[[2]any]*sarama.ConsumerMessage{}}
	s.members[r.Member] = m
	go func() {
		for e := range g.Errors() {
			fmt.Fprintln(os.Stderr, "group:", e)
		}
	}()
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := g.Consume(ctx, s.subscription(r), m); err != nil && ctx.Err() == nil {
				return
			}
		}
	}()
	return nil
}

// subscription is the list of topics; this client has no patterns of its own.
func (s *saramaOps) subscription(r *request) []string {
	if r.Pattern == "" {
		return []string{r.Topic}
	}
	all, _ := s.topics(r)
	var out []string
	for name := range all {
		if ok, _ := regexp.MatchString("^"+r.Pattern, name); ok {
			out = append(out, name)
		}
	}
	return out
}

func (s *saramaOps) poll(r *request) ([]rec, [][2]any, error) {
	m := s.members[r.Member]
	timer := time.NewTimer(r.within(time.Second))
	defer timer.Stop()
	var got []rec
	for waiting := true; waiting && len(got) < r.Count; {
		select {
		case x := <-m.queue:
			got = append(got, saramaTold(x))
			m.mu.Lock()
			m.last[[2]any{x.Topic, x.Partition}] = x
			m.mu.Unlock()
		case <-m.done:
			return got, nil, errors.New("the member left the group by itself")
		case <-timer.C:
			waiting = false
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	owns := make([][2]any, 0, len(m.owns))
	for o := range m.owns {
		owns = append(owns, o)
	}
	sortOwned(owns)
	return got, owns, nil
}

func (s *saramaOps) commit(r *request) error {
	m := s.members[r.Member]
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session == nil {
		return errors.New("no session")
	}
	for _, x := range m.last {
		m.session.MarkMessage(x, "")
	}
	m.session.Commit()
	return nil
}

func (s *saramaOps) committed(r *request) (offset int64, err error) {
	err = s.admin(func(a sarama.ClusterAdmin) error {
		got, err := a.ListConsumerGroupOffsets(r.Group, map[string][]int32{r.Topic: {r.Partition}})
		if err != nil {
			return err
		}
		b := got.GetBlock(r.Topic, r.Partition)
		if b == nil {
			return errors.New("no answer for the partition")
		}
		offset = b.Offset
		if b.Err != sarama.ErrNoError {
			return b.Err
		}
		return nil
	})
	return offset, err
}

func (s *saramaOps) leave(r *request) error {
	m := s.members[r.Member]
	delete(s.members, r.Member)
	m.cancel()
	<-m.done
	return m.group.Close()
}
