package main

import (
	"context"
	"errors"
	"io"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

// segment drives segmentio/kafka-go.
type segment struct {
	addr    string
	cl      *kafka.Client
	members map[string]*segmentMember
}

func newSegment(addr string) *segment {
	return &segment{addr: addr, cl: &kafka.Client{Addr: kafka.TCP(addr), Timeout: 15 * time.Second}, members: map[string]*segmentMember{}}
}

func (s *segment) hello() (string, string) { return "kafka-go", "github.com/segmentio/kafka-go" }

// produce sends one batch to the partition's leader, because the client's Writer
// doesn't tell offsets.
func (s *segment) produce(r *request) ([]ack, error) {
	byPartition := map[int32][]int{}
	for i, x := range r.Records {
		byPartition[x.P] = append(byPartition[x.P], i)
	}
	acks := make([]ack, len(r.Records))
	for p, list := range byPartition {
		base, err := s.batch(r, p, list)
		for k, i := range list {
			acks[i] = ack{P: p, O: base + int64(k)}
			if err != nil {
				acks[i].Error = err.Error()
			}
		}
	}
	return acks, nil
}

func (s *segment) batch(r *request, partition int32, list []int) (int64, error) {
	ctx, cancel := patient()
	defer cancel()
	var rs []kafka.Record
	for _, i := range list {
		x := r.Records[i]
		one := kafka.Record{}
		if x.T != 0 {
			one.Time = time.UnixMilli(x.T)
		}
		if x.K != nil {
			one.Key = kafka.NewBytes(x.K)
		}
		if x.V != nil {
			one.Value = kafka.NewBytes(x.V)
		}
		for _, h := range x.H {
			one.Headers = append(one.Headers, kafka.Header{Key: h.K, Value: h.V})
		}
		rs = append(rs, one)
	}
	codec := map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}[r.Codec]
	for {
		a, err := s.cl.Produce(ctx, &kafka.ProduceRequest{
			Topic: r.Topic, Partition: int(partition), RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(rs...), Compression: codec,
		})
		if err == nil {
			err = a.Error
		}
		if err == nil {
			return a.BaseOffset, nil
		}
		var code kafka.Error
		if !(errors.As(err, &code) && code.Temporary()) || ctx.Err() != nil {
			return 0, err
		}
		select { // as the Writer does
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
		for i := range rs { // the records were read once
			x := r.Records[list[i]]
			if x.K != nil {
				rs[i].Key = kafka.NewBytes(x.K)
			}
			if x.V != nil {
				rs[i].Value = kafka.NewBytes(x.V)
			}
		}
	}
}

func segmentTold(m kafka.Message) rec {
	out := rec{P: int32(m.Partition), O: m.Offset, T: m.Time.UnixMilli(), K: m.Key, V: m.Value}
	for _, h := range m.Headers {
		out.H = append(out.H, header{h.Key, h.Value})
	}
	return out
}

func (s *segment) consume(r *request) ([]rec, error) {
	rd := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{s.addr}, Topic: r.Topic, Partition: int(r.Partition), MaxWait: 200 * time.Millisecond, MaxBytes: 10_000_000})
	defer rd.Close()
	ctx, cancel := context.WithTimeout(context.Background(), r.within(15*time.Second))
	defer cancel()
	var err error
	switch special, n := r.position(); special {
	case "earliest":
		err = rd.SetOffset(kafka.FirstOffset)
	case "latest":
		err = rd.SetOffset(kafka.LastOffset)
	case "ts":
		err = rd.SetOffsetAt(ctx, time.UnixMilli(n))
	default:
		err = rd.SetOffset(n)
	}
	if err != nil {
		return nil, err
	}
	var got []rec
	for len(got) < r.Count {
		m, err := rd.ReadMessage(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			return got, err
		}
		got = append(got, segmentTold(m))
	}
	return got, nil
}

func (s *segment) offsets(r *request) (start, end, at int64, err error) {
	ctx, cancel := patient()
	defer cancel()
	p := int(r.Partition)
	a, err := s.cl.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{
		r.Topic: {kafka.FirstOffsetOf(p), kafka.LastOffsetOf(p), kafka.TimeOffsetOf(p, time.UnixMilli(r.T))},
	}})
	if err != nil {
		return
	}
	for _, o := range a.Topics[r.Topic] {
		start, end, err = o.FirstOffset, o.LastOffset, o.Error
		for offset := range o.Offsets {
			at = offset
		}
	}
	return
}

func (s *segment) create(r *request) error {
	ctx, cancel := patient()
	defer cancel()
	var entries []kafka.ConfigEntry
	for k, v := range r.Configs {
		entries = append(entries, kafka.ConfigEntry{ConfigName: k, ConfigValue: v})
	}
	a, err := s.cl.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: r.Topic, NumPartitions: r.Partitions, ReplicationFactor: r.Replication, ConfigEntries: entries},
	}})
	if err == nil {
		err = a.Errors[r.Topic]
	}
	return err
}

func (s *segment) remove(r *request) error {
	ctx, cancel := patient()
	defer cancel()
	a, err := s.cl.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{r.Topic}})
	if err == nil {
		err = a.Errors[r.Topic]
	}
	return err
}

func (s *segment) grow(r *request) error {
	ctx, cancel := patient()
	defer cancel()
	a, err := s.cl.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: r.Topic, Count: int32(r.Partitions)}}})
	if err == nil {
		err = a.Errors[r.Topic]
	}
	return err
}

func (s *segment) alter(r *request) error {
	ctx, cancel := patient()
	defer cancel()
	var changes []kafka.IncrementalAlterConfigsRequestConfig
	for k, v := range r.Configs {
		changes = append(changes, kafka.IncrementalAlterConfigsRequestConfig{Name: k, Value: v, ConfigOperation: kafka.ConfigOperationSet})
	}
	a, err := s.cl.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: r.Topic, Configs: changes},
	}})
	if err == nil {
		err = a.Resources[0].Error
	}
	return err
}

func (s *segment) configs(r *request) (map[string]string, error) {
	ctx, cancel := patient()
	defer cancel()
	a, err := s.cl.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: r.Topic},
	}})
	out := map[string]string{}
	if err == nil {
		err = a.Resources[0].Error
		for _, c := range a.Resources[0].ConfigEntries {
			out[c.ConfigName] = c.ConfigValue
		}
	}
	return out, err
}

func (s *segment) topics(*request) (map[string]int, error) {
	ctx, cancel := patient()
	defer cancel()
	a, err := s.cl.Metadata(ctx, &kafka.MetadataRequest{})
	out := map[string]int{}
	if err == nil {
		for _, t := range a.Topics {
			out[t.Name] = len(t.Partitions)
		}
	}
	return out, err
}

// segmentMember uses the client's generations, which tell what a member owns;
// its Reader doesn't.
type segmentMember struct {
	group  *kafka.ConsumerGroup
	cancel context.CancelFunc
	queue  chan kafka.Message
	change chan func(*segmentMember)
	done   chan struct{}

	owns [][2]any
	gen  *kafka.Generation
	last map[[2]any]int64
}

func (s *segment) join(r *request) error {
	g, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: r.Group, Brokers: []string{s.addr}, Topics: []string{r.Topic}, GroupBalancers: []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
		HeartbeatInterval: 500 * time.Millisecond, SessionTimeout: 4 * time.Second, RebalanceTimeout: 10 * time.Second, StartOffset: kafka.FirstOffset,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &segmentMember{group: g, cancel: cancel, queue: make(chan kafka.Message), change: make(chan func(*segmentMember)), done: make(chan struct{}), last: map[[2]any]int64{}}
	s.members[r.Member] = m
	go m.run(ctx, s.addr)
	return nil
}

// run takes part in one generation after the other.
func (m *segmentMember) run(ctx context.Context, addr string) {
	defer close(m.done)
	for ctx.Err() == nil {
		gen, err := m.group.Next(ctx)
		if errors.Is(err, kafka.ErrGroupClosed) || ctx.Err() != nil {
			return
		}
		if err != nil {
			continue // the group's loop backs off by itself
		}
		owns := [][2]any{}
		for topic, list := range gen.Assignments {
			for _, a := range list {
				owns = append(owns, [2]any{topic, a.ID})
				gen.Start(func(ctx context.Context) { m.read(ctx, addr, topic, a) })
			}
		}
		sortOwned(owns)
		gen.Start(func(ctx context.Context) {
			m.tell(ctx, func(m *segmentMember) { m.owns, m.gen = owns, gen })
			<-ctx.Done()
		})
	}
}

func (m *segmentMember) tell(ctx context.Context, f func(*segmentMember)) {
	select {
	case m.change <- f:
	case <-ctx.Done():
	}
}

func (m *segmentMember) read(ctx context.Context, addr, topic string, a kafka.PartitionAssignment) {
	rd := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{addr}, Topic: topic, Partition: a.ID, MaxWait: 100 * time.Millisecond})
	defer rd.Close()
	if err := rd.SetOffset(a.Offset); err != nil {
		return
	}
	for {
		x, err := rd.ReadMessage(ctx)
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return
		}
		if err != nil {
			continue
		}
		select {
		case m.queue <- x:
		case <-ctx.Done():
			return
		}
	}
}

func (s *segment) poll(r *request) ([]rec, [][2]any, error) {
	m := s.members[r.Member]
	timer := time.NewTimer(r.within(time.Second))
	defer timer.Stop()
	var got []rec
	for len(got) < r.Count {
		select {
		case x := <-m.queue:
			got = append(got, segmentTold(x))
			m.last[[2]any{x.Topic, x.Partition}] = x.Offset + 1
			continue
		case f := <-m.change:
			f(m)
			continue
		case <-timer.C:
		}
		break
	}
	return got, m.owns, nil
}

func (s *segment) commit(r *request) error {
	m := s.members[r.Member]
	if m.gen == nil {
		return errors.New("no generation")
	}
	offsets := map[string]map[int]int64{}
	for tp, o := range m.last {
		topic, p := tp[0].(string), tp[1].(int)
		if offsets[topic] == nil {
			offsets[topic] = map[int]int64{}
		}
		offsets[topic][p] = o
	}
	return m.gen.CommitOffsets(offsets)
}

func (s *segment) committed(r *request) (int64, error) {
	ctx, cancel := patient()
	defer cancel()
	a, err := s.cl.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: r.Group, Topics: map[string][]int{r.Topic: {int(r.Partition)}}})
	if err == nil {
		err = a.Error
	}
	if err != nil {
		return 0, err
	}
	for _, p := range a.Topics[r.Topic] {
		return p.CommittedOffset, p.Error
	}
	return -1, nil
}

func (s *segment) leave(r *request) error {
	m := s.members[r.Member]
	delete(s.members, r.Member)
	m.cancel()
	err := m.group.Close()
	<-m.done
	return err
}
