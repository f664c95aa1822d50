package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// franz drives franz-go.
type franz struct {
	addr    string
	adm     *kadm.Client
	members map[string]*franzMember
}

type franzMember struct {
	cl   *kgo.Client
	mu   sync.Mutex
	owns map[[2]any]bool
}

func newFranz(addr string) *franz {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		panic(err)
	}
	return &franz{addr: addr, adm: kadm.NewClient(cl), members: map[string]*franzMember{}}
}

func (f *franz) hello() (string, string) { return "franz-go", "github.com/twmb/franz-go" }

func patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 20*time.Second)
}

func (f *franz) produce(r *request) ([]ack, error) {
	codec := map[string]kgo.CompressionCodec{
		"": kgo.NoCompression(), "none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[r.Codec]
	opts := []kgo.Opt{
		kgo.SeedBrokers(f.addr), kgo.DefaultProduceTopic(r.Topic), kgo.ProducerBatchCompression(codec), kgo.AllowAutoTopicCreation(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(20 * time.Millisecond), kgo.ProducerBatchMaxBytes(2_000_000),
		kgo.UnknownTopicRetries(10),
	}
	if !r.Idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, cancel := patient()
	defer cancel()
	rs := make([]*kgo.Record, len(r.Records))
	for i, x := range r.Records {
		rs[i] = &kgo.Record{Partition: x.P, Key: x.K, Value: x.V}
		if x.T != 0 {
			rs[i].Timestamp = time.UnixMilli(x.T)
		}
		for _, h := range x.H {
			rs[i].Headers = append(rs[i].Headers, kgo.RecordHeader{Key: h.K, Value: h.V})
		}
	}
	acks := make([]ack, len(rs))
	at := map[*kgo.Record]int{}
	for i, x := range rs {
		at[x] = i
	}
	for _, p := range cl.ProduceSync(ctx, rs...) {
		a := ack{P: p.Record.Partition, O: p.Record.Offset}
		if p.Err != nil {
			a.Error = p.Err.Error()
		}
		acks[at[p.Record]] = a
	}
	return acks, nil
}

func told(x *kgo.Record) rec {
	out := rec{P: x.Partition, O: x.Offset, T: x.Timestamp.UnixMilli(), K: x.Key, V: x.Value}
	for _, h := range x.Headers {
		out.H = append(out.H, header{h.Key, h.Value})
	}
	return out
}

func (f *franz) consume(r *request) ([]rec, error) {
	o := kgo.NewOffset()
	switch special, n := r.position(); special {
	case "earliest":
		o = o.AtStart()
	case "latest":
		o = o.AtEnd()
	case "ts":
		o = o.AfterMilli(n)
	default:
		o = o.At(n)
	}
	reset := kgo.NoResetOffset()
	if r.Reset == "earliest" {
		reset = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.addr), kgo.FetchMaxWait(200*time.Millisecond), kgo.ConsumeResetOffset(reset),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.Topic: {r.Partition: o}}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), r.within(15*time.Second))
	defer cancel()
	var got []rec
	for len(got) < r.Count && ctx.Err() == nil {
		fs := cl.PollRecords(ctx, r.Count-len(got))
		for _, e := range fs.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) {
				return got, e.Err
			}
		}
		fs.EachRecord(func(x *kgo.Record) { got = append(got, told(x)) })
	}
	return got, nil
}

func (f *franz) offsets(r *request) (start, end, at int64, err error) {
	ctx, cancel := patient()
	defer cancel()
	of := func(l kadm.ListedOffsets, err error) (int64, error) {
		if err == nil {
			err = l.Error()
		}
		o, _ := l.Lookup(r.Topic, r.Partition)
		return o.Offset, err
	}
	if start, err = of(f.adm.ListStartOffsets(ctx, r.Topic)); err != nil {
		return
	}
	if end, err = of(f.adm.ListEndOffsets(ctx, r.Topic)); err != nil {
		return
	}
	at, err = of(f.adm.ListOffsetsAfterMilli(ctx, r.T, r.Topic))
	return
}

func (f *franz) create(r *request) error {
	ctx, cancel := patient()
	defer cancel()
	configs := map[string]*string{}
	for k, v := range r.Configs {
		configs[k] = &v
	}
	_, err := f.adm.CreateTopic(ctx, int32(r.Partitions), int16(r.Replication), configs, r.Topic)
	return err
}

func (f *franz) remove(r *request) error {
	ctx, cancel := patient()
	defer cancel()
	_, err := f.adm.DeleteTopic(ctx, r.Topic)
	return err
}

func (f *franz) grow(r *request) error {
	ctx, cancel := patient()
	defer cancel()
	a, err := f.adm.UpdatePartitions(ctx, r.Partitions, r.Topic)
	if err == nil {
		err = a.Error()
	}
	return err
}

func (f *franz) alter(r *request) error {
	ctx, cancel := patient()
	defer cancel()
	var changes []kadm.AlterConfig
	for k, v := range r.Configs {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: k, Value: &v})
	}
	a, err := f.adm.AlterTopicConfigs(ctx, changes, r.Topic)
	for _, one := range a {
		err = errors.Join(err, one.Err)
	}
	return err
}

func (f *franz) configs(r *request) (map[string]string, error) {
	ctx, cancel := patient()
	defer cancel()
	all, err := f.adm.DescribeTopicConfigs(ctx, r.Topic)
	out := map[string]string{}
	for _, one := range all {
		err = errors.Join(err, one.Err)
		for _, c := range one.Configs {
			out[c.Key] = c.MaybeValue()
		}
	}
	return out, err
}

func (f *franz) topics(*request) (map[string]int, error) {
	ctx, cancel := patient()
	defer cancel()
	all, err := f.adm.ListTopics(ctx)
	out := map[string]int{}
	for name, t := range all {
		out[name] = len(t.Partitions)
	}
	return out, err
}

func (f *franz) join(r *request) error {
	m := &franzMember{owns: map[[2]any]bool{}}
	change := func(owned bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, ps map[string][]int32) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for t, list := range ps {
				for _, p := range list {
					if delete(m.owns, [2]any{t, p}); owned {
						m.owns[[2]any{t, p}] = true
					}
				}
			}
		}
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(f.addr), kgo.ConsumerGroup(r.Group), kgo.DisableAutoCommit(), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)),
		kgo.OnPartitionsLost(change(false)), kgo.MetadataMaxAge(time.Second), kgo.MetadataMinAge(100 * time.Millisecond),
	}
	if r.Protocol == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer())
	} else {
		opts = append(opts, kgo.SessionTimeout(4*time.Second), kgo.HeartbeatInterval(500*time.Millisecond))
	}
	if r.Strategy == "" {
		opts = append(opts, kgo.Balancers(kgo.RangeBalancer()))
	} else {
		opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	if r.Instance != "" {
		opts = append(opts, kgo.InstanceID(r.Instance))
	}
	if r.Pattern != "" {
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+r.Pattern))
	} else {
		opts = append(opts, kgo.ConsumeTopics(r.Topic))
	}
	cl, err := kgo.NewClient(opts...)
	m.cl = cl
	f.members[r.Member] = m
	return err
}

func (f *franz) poll(r *request) ([]rec, [][2]any, error) {
	m := f.members[r.Member]
	ctx, cancel := context.WithTimeout(context.Background(), r.within(time.Second))
	defer cancel()
	var got []rec
	for len(got) < r.Count && ctx.Err() == nil {
		fs := m.cl.PollRecords(ctx, r.Count-len(got))
		for _, e := range fs.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) {
				return got, nil, e.Err
			}
		}
		fs.EachRecord(func(x *kgo.Record) { got = append(got, told(x)) })
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

func sortOwned(owns [][2]any) {
	sort.Slice(owns, func(i, j int) bool { return fmt.Sprint(owns[i]) < fmt.Sprint(owns[j]) })
}

func (f *franz) commit(r *request) error {
	ctx, cancel := patient()
	defer cancel()
	return f.members[r.Member].cl.CommitUncommittedOffsets(ctx)
}

func (f *franz) committed(r *request) (int64, error) {
	ctx, cancel := patient()
	defer cancel()
	all, err := f.adm.FetchOffsets(ctx, r.Group)
	if err != nil {
		return 0, err
	}
	o, ok := all.Lookup(r.Topic, r.Partition)
	if !ok {
		return -1, nil
	}
	return o.At, o.Err
}

func (f *franz) leave(r *request) error {
	f.members[r.Member].cl.Close()
	delete(f.members, r.Member)
	return nil
}
