package protocol

import (
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What kmsg allocates for one element of each array of structs in the requests
// of groups.
const (
	sizeCommitTopic     = int(unsafe.Sizeof(kmsg.OffsetCommitRequestTopic{}))
	sizeCommitPartition = int(unsafe.Sizeof(kmsg.OffsetCommitRequestTopicPartition{}))
	sizeOffsetsTopic    = int(unsafe.Sizeof(kmsg.OffsetFetchRequestTopic{}))
	sizeOffsetsGroup    = int(unsafe.Sizeof(kmsg.OffsetFetchRequestGroup{}))
	sizeOffsetsOfGroup  = int(unsafe.Sizeof(kmsg.OffsetFetchRequestGroupTopic{}))
	sizeJoinProtocol    = int(unsafe.Sizeof(kmsg.JoinGroupRequestProtocol{}))
	sizeSyncAssignment  = int(unsafe.Sizeof(kmsg.SyncGroupRequestGroupAssignment{}))
	sizeLeaveMember     = int(unsafe.Sizeof(kmsg.LeaveGroupRequestMember{}))
	sizeConsumerOwned   = int(unsafe.Sizeof(kmsg.ConsumerGroupHeartbeatRequestTopic{}))
	sizeOffsetDelTopic  = int(unsafe.Sizeof(kmsg.OffsetDeleteRequestTopic{}))
	sizeOffsetDelPart   = int(unsafe.Sizeof(kmsg.OffsetDeleteRequestTopicPartition{}))
)

// guardGroups walks the requests of group coordinators; false means that the key
// is none of theirs.
func guardGroups(w *walk, key, v int16) bool {
	switch key {
	case KeyOffsetCommit:
		guardOffsetCommit(w, v)
	case KeyOffsetFetch:
		guardOffsetFetch(w, v)
	case KeyJoinGroup:
		guardJoinGroup(w, v)
	case KeyHeartbeat:
		w.str() // group
		w.skip(4)
		w.str() // member
		w.instance(v >= 3)
		w.tags(0)
	case KeyLeaveGroup:
		guardLeaveGroup(w, v)
	case KeySyncGroup:
		guardSyncGroup(w, v)
	case KeyDescribeGroups:
		w.strs()
		if v >= 3 {
			w.skip(1) // include authorized operations
		}
		w.tags(0)
	case KeyListGroups:
		if v >= 4 {
			w.strs() // states
		}
		if v >= 5 {
			w.strs() // types
		}
		w.tags(0)
	case KeyDeleteGroups:
		w.strs()
		w.tags(0)
	case KeyOffsetDelete:
		guardOffsetDelete(w)
	case KeyConsumerGroupHeartbeat:
		guardConsumerHeartbeat(w, v)
	case KeyConsumerGroupDescribe:
		w.strs()
		w.skip(1) // include authorized operations
		w.tags(0)
	default:
		return false
	}
	return true
}

// strs passes an array of strings.
func (w *walk) strs() {
	for n := w.array(sizeString); n > 0 && w.err == nil; n-- {
		w.str()
	}
}

// instance passes a group.instance.id where the version has one.
func (w *walk) instance(has bool) {
	if has {
		w.nullStr()
	}
}

// bytes passes bytes that may not be null; decoding aliases them.
func (w *walk) bytes() { w.skip(w.length(true, false)) }

func guardOffsetCommit(w *walk, v int16) {
	w.str()   // group
	w.skip(4) // generation
	w.str()   // member
	w.instance(v >= 7)
	if v >= 2 && v <= 4 {
		w.skip(8) // retention
	}
	for n := w.array(sizeCommitTopic); n > 0 && w.err == nil; n-- {
		w.topic(v >= 10)
		for p := w.array(sizeCommitPartition); p > 0 && w.err == nil; p-- {
			w.skip(4 + 8) // partition, offset
			if v >= 6 {
				w.skip(4) // leader epoch
			}
			w.nullStr() // metadata
			w.tags(0)
		}
		w.tags(0)
	}
	w.tags(0)
}

func guardOffsetFetch(w *walk, v int16) {
	if v <= 7 {
		w.str() // group
		topics := w.array
		if v >= 2 {
			topics = w.nullArray
		}
		for n := topics(sizeOffsetsTopic); n > 0 && w.err == nil; n-- {
			w.str()
			w.fixed(4) // partitions
			w.tags(0)
		}
	} else {
		for n := w.array(sizeOffsetsGroup); n > 0 && w.err == nil; n-- {
			guardOffsetsOfGroup(w, v)
		}
	}
	if v >= 7 {
		w.skip(1) // require stable
	}
	w.tags(0)
}

func guardOffsetsOfGroup(w *walk, v int16) {
	w.str() // group
	if v >= 9 {
		w.nullStr() // member
		w.skip(4)   // member epoch
	}
	for n := w.nullArray(sizeOffsetsOfGroup); n > 0 && w.err == nil; n-- {
		w.topic(v >= 10)
		w.fixed(4) // partitions
		w.tags(0)
	}
	w.tags(0)
}

func guardJoinGroup(w *walk, v int16) {
	w.str()   // group
	w.skip(4) // session timeout
	if v >= 1 {
		w.skip(4) // rebalance timeout
	}
	w.str() // member
	w.instance(v >= 5)
	w.str() // protocol type
	for n := w.array(sizeJoinProtocol); n > 0 && w.err == nil; n-- {
		w.str()
		w.bytes() // metadata
		w.tags(0)
	}
	if v >= 8 {
		w.nullStr() // reason
	}
	w.tags(0)
}

func guardLeaveGroup(w *walk, v int16) {
	w.str() // group
	if v <= 2 {
		w.str() // member
		w.tags(0)
		return
	}
	for n := w.array(sizeLeaveMember); n > 0 && w.err == nil; n-- {
		w.str() // member
		w.nullStr()
		if v >= 5 {
			w.nullStr() // reason
		}
		w.tags(0)
	}
	w.tags(0)
}

func guardSyncGroup(w *walk, v int16) {
	w.str()   // group
	w.skip(4) // generation
	w.str()   // member
	w.instance(v >= 3)
	if v >= 5 {
		w.nullStr() // protocol type
		w.nullStr() // protocol
	}
	for n := w.array(sizeSyncAssignment); n > 0 && w.err == nil; n-- {
		w.str() // member
		w.bytes()
		w.tags(0)
	}
	w.tags(0)
}

func guardConsumerHeartbeat(w *walk, v int16) {
	w.str()     // group
	w.str()     // member
	w.skip(4)   // member epoch
	w.nullStr() // instance
	w.nullStr() // rack
	w.skip(4)   // rebalance timeout
	for n := w.nullArray(sizeString); n > 0 && w.err == nil; n-- {
		w.str()
	}
	if v >= 1 {
		w.nullStr() // pattern
	}
	w.nullStr() // assignor
	for n := w.nullArray(sizeConsumerOwned); n > 0 && w.err == nil; n-- {
		w.skip(16)
		w.fixed(4) // partitions
		w.tags(0)
	}
	w.tags(0)
}

func guardOffsetDelete(w *walk) {
	w.str() // group
	for n := w.array(sizeOffsetDelTopic); n > 0 && w.err == nil; n-- {
		w.str()
		for p := w.array(sizeOffsetDelPart); p > 0 && w.err == nil; p-- {
			w.skip(4)
		}
	}
}
