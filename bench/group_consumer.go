package bench

import (
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerMember is a member of a group whose coordinator assigns (KIP-848). It
// gives up and takes partitions as soon as it is told to.
type consumerMember struct {
	c        *conn
	group    string
	topic    string
	id       string
	epoch    int32
	owns     []kmsg.ConsumerGroupHeartbeatRequestTopic
	count    int
	requests int64
}

// beat sends one heartbeat, and tells of what it owns when that has changed.
func (m *consumerMember) beat(changed bool) (again bool, err error) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 0, m.group, m.id, m.epoch
	if m.epoch == 0 {
		req.RebalanceTimeoutMillis = 60_000
		req.SubscribedTopicNames = []string{m.topic}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	} else if changed {
		req.Topics = m.owns
	}
	m.requests++
	r, err := m.c.call(req)
	if err != nil {
		return false, err
	}
	resp := r.(*kmsg.ConsumerGroupHeartbeatResponse)
	if loading(resp.ErrorCode) {
		return false, nil
	}
	if resp.ErrorCode != 0 {
		return false, fmt.Errorf("heartbeat in epoch %d: %w", m.epoch, kerr.ErrorForCode(resp.ErrorCode))
	}
	if resp.MemberID != nil {
		m.id = *resp.MemberID
	}
	m.epoch = resp.MemberEpoch
	if resp.Assignment == nil {
		return false, nil
	}
	m.owns, m.count = []kmsg.ConsumerGroupHeartbeatRequestTopic{}, 0
	for _, t := range resp.Assignment.Topics {
		m.owns = append(m.owns, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: t.TopicID, Partitions: t.Partitions})
		m.count += len(t.Partitions)
	}
	return true, nil
}

// evenly waits until each member has one partition.
type evenly struct {
	mu     sync.Mutex
	has    []int
	done   chan struct{}
	failed error
}

func (s *evenly) set(i, count int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has[i] = count
	all := true
	for _, n := range s.has {
		all = all && n == 1
	}
	select {
	case <-s.done:
	default:
		if all || err != nil {
			s.failed = err
			close(s.done)
		}
	}
}

// stay beats until the group is shared evenly.
func (m *consumerMember) stay(i int, s *evenly) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for changed := false; ; {
		var err error
		if changed, err = m.beat(changed); changed || err != nil {
			s.set(i, m.count, err)
		}
		if changed {
			continue // what it gave up is awaited by others
		}
		select {
		case <-s.done:
			return
		case <-tick.C:
		}
	}
}

// consumerJoinCell has members come to a group whose coordinator assigns, ten
// milliseconds apart, and measures until each has one of as many partitions.
func consumerJoinCell(members int) func(*env) error {
	return func(e *env) error {
		n := max(2, e.scaled(members))
		topic, err := e.topic(n)
		if err != nil {
			return err
		}
		group := groupName()
		if err := awaitCoordinator(e.target.Addr, group); err != nil {
			return err
		}
		s := &evenly{has: make([]int, n), done: make(chan struct{})}
		all := make([]*consumerMember, n)
		for i := range all {
			c, err := dial(e.target.Addr)
			if err != nil {
				return err
			}
			defer c.close()
			all[i] = &consumerMember{c: c, group: group, topic: topic}
		}
		var running sync.WaitGroup
		began := time.Now()
		err = e.measure(func() error {
			for i, m := range all {
				running.Go(func() { m.stay(i, s) })
				time.Sleep(10 * time.Millisecond)
			}
			select {
			case <-s.done:
			case <-time.After(2 * time.Minute):
				s.set(0, 0, fmt.Errorf("%d partitions are not shared evenly after two minutes", n))
			}
			return s.failed
		})
		e.lat.add(time.Since(began))
		running.Wait()
		var requests int64
		for _, m := range all {
			requests += m.requests
		}
		e.count(requests)
		return err
	}
}
