package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// compactionCell fills a topic with two records of each key, all in a random
// order, has the topic compacted and measures until the log is as small as it
// gets. Bytes are those of the log before.
func compactionCell(keys int) func(*env) error {
	return func(e *env) error {
		n := e.scaled(keys)
		topic, err := e.topic(1)
		if err != nil {
			return err
		}
		segment := "16777216"
		if e.scale < 1 { // what is cleaned must not all be in the segment that is written to
			segment = "1048576"
		}
		if err := e.alter(topic, "segment.bytes", segment); err != nil {
			return err
		}
		if err := fillKeyed(e.target.Addr, topic, n); err != nil {
			return err
		}
		size, err := e.sizeOf(topic)
		if err != nil {
			return err
		}
		e.result.Requests, e.result.Records, e.result.Bytes = 1, int64(2*n), size
		began := time.Now()
		err = e.measure(func() error {
			if err := e.alter(topic, "cleanup.policy", "compact"); err != nil {
				return err
			}
			return e.awaitSize(topic, size*62/100+2<<20)
		})
		e.lat.add(time.Since(began))
		return err
	}
}

// alter sets one of a topic's settings.
func (e *env) alter(topic, name, value string) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	answers, err := kadm.NewClient(e.client).AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	if err != nil {
		return err
	}
	for _, a := range answers {
		err = errors.Join(err, a.Err)
	}
	return err
}

// sizeOf asks for the bytes of a topic's partition on disk.
func (e *env) sizeOf(topic string) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	var set kadm.TopicsSet
	set.Add(topic, 0)
	dirs, err := kadm.NewClient(e.client).DescribeAllLogDirs(ctx, set)
	if err != nil {
		return 0, err
	}
	var size int64
	dirs.Each(func(d kadm.DescribedLogDir) { size += d.Size() })
	return size, nil
}

// awaitSize polls until the topic is no larger than that.
func (e *env) awaitSize(topic string, atMost int64) error {
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		size, err := e.sizeOf(topic)
		if err != nil {
			return err
		}
		if size > 0 && size <= atMost {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the log has %d bytes after five minutes, not %d", size, atMost)
		}
	}
}

// keyedRecord is encodeRecord with a key.
func keyedRecord(delta int32, key, value []byte) []byte {
	inner := []byte{0}
	inner = binary.AppendVarint(inner, 0)
	inner = binary.AppendVarint(inner, int64(delta))
	inner = binary.AppendVarint(inner, int64(len(key)))
	inner = append(inner, key...)
	inner = binary.AppendVarint(inner, int64(len(value)))
	inner = append(inner, value...)
	inner = binary.AppendVarint(inner, 0)
	return append(binary.AppendVarint(nil, int64(len(inner))), inner...)
}

// fillKeyed produces two records of 100 bytes for each key, in batches of a
// hundred, up to sixteen of them under way.
func fillKeyed(addr, topic string, keys int) error {
	const perBatch, depth = 100, 16
	rng := rand.New(rand.NewPCG(21, 22))
	order := rng.Perm(2 * keys)
	value := make([]byte, 100)
	for i := range value {
		value[i] = byte(rng.Uint32())
	}
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.close()
	var req *kmsg.ProduceRequest
	waiting := 0
	take := func(most int) error {
		for ; waiting > most; waiting-- {
			b, err := c.read()
			if err != nil {
				return err
			}
			if err := checkProduce(req, b); err != nil {
				return err
			}
		}
		return nil
	}
	for len(order) > 0 {
		var body []byte
		count := min(perBatch, len(order))
		for i, o := range order[:count] {
			body = append(body, keyedRecord(int32(i), fmt.Appendf(nil, "key-%012d", o%keys), value)...)
		}
		order = order[count:]
		req = produceRequest(topic, 0, 1, frameBatch(body, count))
		if err := c.write(c.encode(req)); err != nil {
			return err
		}
		waiting++
		if err := take(depth - 1); err != nil {
			return err
		}
	}
	return take(0)
}

// OffsetsLoad is committed offsets of many groups, for measuring how long a
// coordinator takes to load them.
type OffsetsLoad struct {
	Groups     int
	Partitions int // of the topic that they are offsets of, and of each group
}

const offsetsTopic, offsetsGroup = "bench-offsets", "bench-offsets-%d"

// Fill makes the topic and commits the offsets, ten in a request.
func (l OffsetsLoad) Fill(addr string) error {
	e := &env{target: Target{Addr: addr}}
	if err := e.named(offsetsTopic, l.Partitions); err != nil {
		return err
	}
	e.client.Close()
	if err := awaitCoordinator(addr, fmt.Sprintf(offsetsGroup, 0)); err != nil {
		return err
	}
	if err := l.await(addr, -1); err != nil {
		return err
	}
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.close()
	const perRequest, depth = 10, 64
	var reqs []*kmsg.OffsetCommitRequest
	take := func(most int) error {
		for len(reqs) > most {
			b, err := c.read()
			if err != nil {
				return err
			}
			if err := checkCommit(reqs[0], b); err != nil {
				return err
			}
			reqs = reqs[1:]
		}
		return nil
	}
	for g := range l.Groups {
		m := &groupMember{group: fmt.Sprintf(offsetsGroup, g), generation: -1}
		for p := 0; p < l.Partitions; p += perRequest {
			var parts []int32
			for n := p; n < min(p+perRequest, l.Partitions); n++ {
				parts = append(parts, int32(n))
			}
			req := m.commit(offsetsTopic, 1_000_000, parts...)
			if err := c.write(c.encode(req)); err != nil {
				return err
			}
			reqs = append(reqs, req)
			if err := take(depth - 1); err != nil {
				return err
			}
		}
	}
	return take(0)
}

// Await asks for the offsets of five hundred of the groups, which are of all
// coordinators' partitions, until all are there.
func (l OffsetsLoad) Await(addr string) error { return l.await(addr, 1_000_000) }

func (l OffsetsLoad) await(addr string, offset int64) error {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 8
	sample := min(500, l.Groups)
	for i := range sample {
		req.Groups = append(req.Groups, kmsg.OffsetFetchRequestGroup{Group: fmt.Sprintf(offsetsGroup, i*(l.Groups/sample)),
			Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: offsetsTopic, Partitions: []int32{int32(l.Partitions) - 1}}}})
	}
	var last error
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		c, err := dial(addr)
		if err != nil {
			last = err
			continue
		}
		resp, err := c.call(req)
		c.close()
		if err != nil {
			last = err
			continue
		}
		if last = offsetsThere(resp.(*kmsg.OffsetFetchResponse), offset); last == nil {
			return nil
		}
	}
	return last
}

// offsetsThere wants the offset of every group.
func offsetsThere(resp *kmsg.OffsetFetchResponse, offset int64) error {
	for _, g := range resp.Groups {
		if offset < 0 && g.ErrorCode == kerr.GroupIDNotFound.Code {
			continue // kfake's word for a group without offsets
		}
		if g.ErrorCode != 0 {
			return fmt.Errorf("%s: %w", g.Group, kerr.ErrorForCode(g.ErrorCode))
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 || p.Offset != offset {
					return fmt.Errorf("%s %s-%d: offset %d, %w", g.Group, t.Topic, p.Partition, p.Offset, errors.Join(errNotThere, kerr.ErrorForCode(p.ErrorCode)))
				}
			}
		}
	}
	return nil
}

var errNotThere = errors.New("not what was committed")
