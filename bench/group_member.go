package bench

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupMember is one member of a classic group on a connection of its own, used
// by one goroutine. Its subscription and assignments are a few bytes that no
// broker looks into.
type groupMember struct {
	c          *conn
	group      string
	id         string
	generation int32
	requests   int64
}

// loading are the answers of a coordinator that will serve in a moment.
func loading(code int16) bool {
	switch kerr.ErrorForCode(code) {
	case kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.UnknownTopicOrPartition:
		return true
	}
	return false
}

// awaitCoordinator asks for a group's coordinator until there is one, which makes
// the topic of the offsets.
func awaitCoordinator(addr, group string) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.close()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorKey = 2, group
	for end := time.Now().Add(requestTimeout); ; time.Sleep(20 * time.Millisecond) {
		resp, err := c.call(req)
		if err != nil {
			return err
		}
		code := resp.(*kmsg.FindCoordinatorResponse).ErrorCode
		if code == 0 || time.Now().After(end) {
			return kerr.ErrorForCode(code)
		}
	}
}

func newGroupMember(addr, group string) (*groupMember, error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	return &groupMember{c: c, group: group, generation: -1}, nil
}

func (m *groupMember) call(r kmsg.Request) (kmsg.Response, error) {
	m.requests++
	return m.c.call(r)
}

// subscription is what a consumer of the topic "bench" says of itself.
var subscription = []byte{0, 1, 0, 0, 0, 1, 0, 5, 'b', 'e', 'n', 'c', 'h', 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}

// join joins and syncs until the member has an assignment.
func (m *groupMember) join() error {
	for {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.MemberID, req.ProtocolType = 5, m.group, m.id, "consumer"
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 60_000
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription}}
		resp, err := m.call(req)
		if err != nil {
			return err
		}
		joined := resp.(*kmsg.JoinGroupResponse)
		switch kerr.ErrorForCode(joined.ErrorCode) {
		case nil:
		case kerr.MemberIDRequired:
			m.id = joined.MemberID
			continue
		default:
			if loading(joined.ErrorCode) {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			return fmt.Errorf("join: %w", kerr.ErrorForCode(joined.ErrorCode))
		}
		m.id, m.generation = joined.MemberID, joined.Generation
		again, err := m.sync(joined)
		if err != nil || !again {
			return err
		}
	}
}

// sync gets the member's assignment; the leader hands out everybody's. It reports
// whether another rebalance has begun.
func (m *groupMember) sync(joined *kmsg.JoinGroupResponse) (again bool, err error) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 3, m.group, m.id, m.generation
	if joined.LeaderID == m.id {
		for _, x := range joined.Members {
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: x.MemberID, MemberAssignment: subscription})
		}
	}
	resp, err := m.call(req)
	if err != nil {
		return false, err
	}
	code := resp.(*kmsg.SyncGroupResponse).ErrorCode
	if kerr.ErrorForCode(code) == kerr.RebalanceInProgress {
		return true, nil
	}
	return false, kerr.ErrorForCode(code)
}

// heartbeat is the request that says that the member lives.
func (m *groupMember) heartbeat() *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 3, m.group, m.id, m.generation
	return req
}

// beat sends one heartbeat and reports whether the group rebalances.
func (m *groupMember) beat() (again bool, err error) {
	resp, err := m.call(m.heartbeat())
	if err != nil {
		return false, err
	}
	code := resp.(*kmsg.HeartbeatResponse).ErrorCode
	if kerr.ErrorForCode(code) == kerr.RebalanceInProgress {
		return true, nil
	}
	return false, kerr.ErrorForCode(code)
}

// commit is a commit of one offset for each of some partitions.
func (m *groupMember) commit(topic string, offset int64, partitions ...int32) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 7, m.group, m.id, m.generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for _, n := range partitions {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch = n, offset, -1
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// checkCommit decodes the answer to a commit.
func checkCommit(req *kmsg.OffsetCommitRequest, b []byte) error {
	resp, err := decode(req, b)
	if err != nil {
		return err
	}
	for _, t := range resp.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return fmt.Errorf("commit of %s-%d: %w", t.Topic, p.Partition, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	}
	return nil
}
