package consumer

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/assign"
)

// The kinds of key of consumer groups in __consumer_offsets. Source: Kafka's
// group-coordinator message definitions.
const (
	keyGroup         int16 = 3
	keyPartitions    int16 = 4 // of older brokers; the group's hash has replaced it
	keyMember        int16 = 5
	keyTarget        int16 = 6
	keyTargetMember  int16 = 7
	keyCurrentMember int16 = 8
	keyRegex         int16 = 16 // what a pattern matched; found out anew here
)

// Kind is what a record is about.
type Kind int16

// Known reports whether a key's version is one of a consumer group.
func Known(version int16) bool {
	switch version {
	case keyGroup, keyPartitions, keyMember, keyTarget, keyTargetMember, keyCurrentMember, keyRegex:
		return true
	}
	return false
}

// Record is a record that was understood.
type Record struct {
	// Group is the group's id.
	Group string

	kind   int16
	member string // of the kinds that are about one
	gone   bool   // a tombstone
	epoch  int32  // of keyGroup and keyTarget
	hash   int64  // of keyGroup
	target assign.Set
	value  Member // the fields of keyMember or of keyCurrentMember
}

// Parse reads a record whose key is of a known kind. Nothing of the result
// aliases r.
func Parse(r coordinator.Record) (Record, error) {
	k := reader{b: r.Key}
	p := Record{kind: k.int16(), Group: k.keyString()}
	switch p.kind {
	case keyMember, keyTargetMember, keyCurrentMember:
		p.member = k.keyString()
	case keyRegex:
		k.keyString()
	}
	if k.err != nil || len(k.b) > 0 {
		return p, fmt.Errorf("key of kind %d: %w", p.kind, errShort)
	}
	if p.gone = r.Value == nil; p.gone {
		return p, nil
	}
	v := reader{b: r.Value}
	if version := v.int16(); v.err == nil && version != 0 {
		return p, fmt.Errorf("value of kind %d has version %d", p.kind, version)
	}
	p.read(&v)
	if v.err != nil {
		return p, fmt.Errorf("value of kind %d: %w", p.kind, v.err)
	}
	return p, nil
}

// read takes the fields of a value. What follows them is of a later Kafka.
func (p *Record) read(v *reader) {
	switch p.kind {
	case keyGroup:
		p.epoch = v.int32()
		v.tags(func(tag int, value *reader) {
			if tag == 0 {
				p.hash = value.int64()
			}
		})
	case keyMember:
		m := &p.value
		m.ID, m.Instance, m.Rack, m.ClientID, m.ClientHost = p.member, v.nullable(), v.nullable(), v.string(), v.string()
		m.Names, m.Regex, m.RebalanceTimeoutMs, m.Assignor = v.strings(), v.nullable(), v.int32(), v.nullable()
		v.tags(func(tag int, value *reader) {
			if tag == 0 {
				m.Classic = value.classic()
				v.err = cmp.Or(v.err, value.err)
			}
		})
	case keyTarget:
		p.epoch = v.int32()
	case keyTargetMember:
		p.target = v.set()
	case keyCurrentMember:
		m := &p.value
		m.Epoch, m.Previous, m.State, m.Assigned, m.Revoking = v.int32(), v.int32(), MemberState(v.int8()), v.set(), v.set()
	}
}

func key(kind int16, names ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(kind))
	for _, n := range names {
		b = appendKeyString(b, n)
	}
	return b
}

// value begins a value of version 0.
func value(epochs ...int32) []byte {
	b := []byte{0, 0}
	for _, e := range epochs {
		b = binary.BigEndian.AppendUint32(b, uint32(e))
	}
	return b
}

func groupRecord(group string, epoch int32, hash int64) coordinator.Record {
	v := value(epoch)
	v = append(v, 1, 0, 8) // one tagged field, number 0, of eight bytes
	return coordinator.Record{Key: key(keyGroup, group), Value: binary.BigEndian.AppendUint64(v, uint64(hash))}
}

func memberRecord(group string, m *Member) coordinator.Record {
	v := appendNullable(value(), m.Instance)
	v = appendNullable(v, m.Rack)
	v = appendString(v, m.ClientID)
	v = appendString(v, m.ClientHost)
	v = appendStrings(v, m.Names)
	v = appendNullable(v, m.Regex)
	v = binary.BigEndian.AppendUint32(v, uint32(m.RebalanceTimeoutMs))
	v = appendNullable(v, m.Assignor)
	return coordinator.Record{Key: key(keyMember, group, m.ID), Value: appendClassic(v, m.Classic)}
}

func targetRecord(group string, epoch int32) coordinator.Record {
	return coordinator.Record{Key: key(keyTarget, group), Value: append(value(epoch), 0)}
}

func targetMemberRecord(group, member string, target assign.Set) coordinator.Record {
	return coordinator.Record{Key: key(keyTargetMember, group, member), Value: append(appendSet(value(), target), 0)}
}

func currentMemberRecord(group string, m *Member) coordinator.Record {
	v := append(value(m.Epoch, m.Previous), byte(m.State))
	v = appendSet(v, m.Assigned)
	v = appendSet(v, m.Revoking)
	return coordinator.Record{Key: key(keyCurrentMember, group, m.ID), Value: append(v, 0)}
}

// memberTombstones remove all that is known of a member, what others depend on
// last.
func memberTombstones(group, member string) []coordinator.Record {
	return []coordinator.Record{
		{Key: key(keyCurrentMember, group, member)}, {Key: key(keyTargetMember, group, member)}, {Key: key(keyMember, group, member)},
	}
}

// Tombstones remove a group without members.
func Tombstones(group string) []coordinator.Record {
	return []coordinator.Record{{Key: key(keyTarget, group)}, {Key: key(keyGroup, group)}}
}

// Gone reports whether the record is a tombstone.
func (r Record) Gone() bool { return r.gone }

// Ends reports whether the record is the tombstone of the group itself.
func (r Record) Ends() bool { return r.gone && r.kind == keyGroup }
