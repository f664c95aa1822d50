package group

import (
	"encoding/binary"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/internal/model"
)

// The kinds of key in __consumer_offsets, by the version that stands before
// each. Source: Kafka's group-coordinator message definitions.
const (
	keyOffset0 int16 = 0
	keyOffset1 int16 = 1
	keyGroup   int16 = 2

	// What is written, as Kafka 4 does.
	offsetKeyVersion     = keyOffset1
	offsetVersion        = 3
	offsetExpiresVersion = 1 // the only one that holds an expiry of its own
	groupVersion         = 3
)

// errUnreadable says that a record's key or value is not what its version says.
var errUnreadable = errors.New("unreadable record")

// committed is one committed offset.
type committed struct {
	offset   int64
	epoch    int32 // -1: none was given
	metadata string
	at       model.Timestamp
	// expires is the time the client asked for, NoTimestamp for the broker's
	// retention.
	expires model.Timestamp
}

// parsed is a record that was understood: one of an offset's commit, a group's
// members, or a tombstone of either. Neither is set for a key of another kind.
type parsed struct {
	group string

	isOffset  bool
	topic     string
	partition int32
	offset    *committed // nil: tombstone

	isGroup  bool
	metadata *kmsg.GroupMetadataValue // nil: tombstone
}

// parse reads a record. Strings and slices are copies.
func parse(r coordinator.Record) (p parsed, err error) {
	if len(r.Key) < 2 {
		return p, errUnreadable
	}
	switch int16(binary.BigEndian.Uint16(r.Key)) {
	case keyOffset0, keyOffset1:
		return parseOffset(r)
	case keyGroup:
		return parseGroup(r)
	}
	return p, nil
}

func parseOffset(r coordinator.Record) (p parsed, err error) {
	var k kmsg.OffsetCommitKey
	if k.ReadFrom(r.Key) != nil {
		return p, errUnreadable
	}
	p.group, p.isOffset, p.topic, p.partition = k.Group, true, k.Topic, k.Partition
	if r.Value == nil {
		return p, nil
	}
	var v kmsg.OffsetCommitValue
	if !versionIn(r.Value, 0, 4) || v.ReadFrom(r.Value) != nil || v.Offset < 0 {
		return p, errUnreadable
	}
	c := &committed{offset: v.Offset, epoch: -1, metadata: v.Metadata, at: model.Timestamp(v.CommitTimestamp), expires: model.NoTimestamp}
	if v.Version >= 3 {
		c.epoch = v.LeaderEpoch
	}
	if v.Version == 1 {
		c.expires = model.Timestamp(v.ExpireTimestamp)
	}
	p.offset = c
	return p, nil
}

func parseGroup(r coordinator.Record) (p parsed, err error) {
	var k kmsg.GroupMetadataKey
	if k.ReadFrom(r.Key) != nil {
		return p, errUnreadable
	}
	p.group, p.isGroup = k.Group, true
	if r.Value == nil {
		return p, nil
	}
	v := new(kmsg.GroupMetadataValue)
	if !versionIn(r.Value, 0, 4) || v.ReadFrom(r.Value) != nil || v.Generation < 0 {
		return p, errUnreadable
	}
	for i := range v.Members {
		mem := &v.Members[i]
		mem.Subscription, mem.Assignment = append([]byte{}, mem.Subscription...), append([]byte{}, mem.Assignment...)
	}
	p.metadata = v
	return p, nil
}

// versionIn reports whether a value begins with a version that is understood.
func versionIn(value []byte, lo, hi int16) bool {
	if len(value) < 2 {
		return false
	}
	v := int16(binary.BigEndian.Uint16(value))
	return v >= lo && v <= hi
}

func offsetKey(group, topic string, partition int32) []byte {
	k := kmsg.OffsetCommitKey{Version: offsetKeyVersion, Group: group, Topic: topic, Partition: partition}
	return k.AppendTo(nil)
}

func offsetRecord(group, topic string, partition int32, c *committed) coordinator.Record {
	v := kmsg.OffsetCommitValue{
		Version: offsetVersion, Offset: c.offset, LeaderEpoch: c.epoch, Metadata: c.metadata, CommitTimestamp: int64(c.at),
	}
	if c.expires != model.NoTimestamp {
		v.Version, v.ExpireTimestamp = offsetExpiresVersion, int64(c.expires)
	}
	return coordinator.Record{Key: offsetKey(group, topic, partition), Value: v.AppendTo(nil)}
}

func offsetTombstone(group, topic string, partition int32) coordinator.Record {
	return coordinator.Record{Key: offsetKey(group, topic, partition)}
}

func groupKey(group string) []byte {
	k := kmsg.GroupMetadataKey{Version: keyGroup, Group: group}
	return k.AppendTo(nil)
}

// groupRecord is the present generation of a group, or that of a membership that
// is to take its place; parts are the assignments by member id, nil for those that
// the members have.
func groupRecord(g *group, parts map[string][]byte, instead ...*classic) coordinator.Record {
	c := g.classic
	if len(instead) > 0 {
		c = instead[0]
	}
	v := kmsg.GroupMetadataValue{
		Version: groupVersion, ProtocolType: c.protocolType, Generation: c.generation, CurrentStateTimestamp: int64(c.since),
	}
	if c.chosen {
		v.Protocol = &c.protocol
	}
	if c.leader != "" {
		v.Leader = &c.leader
	}
	for _, mem := range c.members {
		mv := kmsg.NewGroupMetadataValueMember()
		mv.MemberID, mv.InstanceID, mv.ClientID, mv.ClientHost = mem.id, mem.instance, mem.clientID, mem.clientHost
		mv.RebalanceTimeoutMillis = int32(mem.rebalanceTimeout / nanosPerMilli)
		mv.SessionTimeoutMillis = int32(mem.sessionTimeout / nanosPerMilli)
		mv.Subscription, mv.Assignment = orEmpty(mem.metadata(c.protocol)), orEmpty(mem.assignment)
		if parts != nil {
			mv.Assignment = orEmpty(parts[mem.id])
		}
		v.Members = append(v.Members, mv)
	}
	return coordinator.Record{Key: groupKey(g.id), Value: v.AppendTo(nil)}
}

func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func groupTombstone(group string) coordinator.Record {
	return coordinator.Record{Key: groupKey(group)}
}

// subscription reads the topics out of what a consumer says of itself under an
// assignment protocol: a version, then the topics, then what doesn't matter here.
// Source: KIP-429, Kafka's ConsumerProtocolSubscription.
func subscription(b []byte) (topics []string, ok bool) {
	if len(b) < 6 || int16(binary.BigEndian.Uint16(b)) < 0 {
		return nil, false
	}
	n := int32(binary.BigEndian.Uint32(b[2:]))
	b = b[6:]
	for ; n > 0; n-- {
		if len(b) < 2 {
			return nil, false
		}
		size := int(int16(binary.BigEndian.Uint16(b)))
		b = b[2:]
		if size < 0 || size > len(b) {
			return nil, false
		}
		topics = append(topics, string(b[:size]))
		b = b[size:]
	}
	return topics, true
}
