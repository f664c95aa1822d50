package protocol

import (
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What kmsg allocates for one element of each array of structs.
const (
	sizeString = int(unsafe.Sizeof(""))

	sizeProduceTopic     = int(unsafe.Sizeof(kmsg.ProduceRequestTopic{}))
	sizeProducePartition = int(unsafe.Sizeof(kmsg.ProduceRequestTopicPartition{}))
	sizeFetchTopic       = int(unsafe.Sizeof(kmsg.FetchRequestTopic{}))
	sizeFetchPartition   = int(unsafe.Sizeof(kmsg.FetchRequestTopicPartition{}))
	sizeFetchForgotten   = int(unsafe.Sizeof(kmsg.FetchRequestForgottenTopic{}))
	sizeListTopic        = int(unsafe.Sizeof(kmsg.ListOffsetsRequestTopic{}))
	sizeListPartition    = int(unsafe.Sizeof(kmsg.ListOffsetsRequestTopicPartition{}))
	sizeMetadataTopic    = int(unsafe.Sizeof(kmsg.MetadataRequestTopic{}))
	sizeDeleteRecTopic   = int(unsafe.Sizeof(kmsg.DeleteRecordsRequestTopic{}))
	sizeDeleteRecPart    = int(unsafe.Sizeof(kmsg.DeleteRecordsRequestTopicPartition{}))
	sizeEpochTopic       = int(unsafe.Sizeof(kmsg.OffsetForLeaderEpochRequestTopic{}))
	sizeEpochPartition   = int(unsafe.Sizeof(kmsg.OffsetForLeaderEpochRequestTopicPartition{}))
	sizeProducersTopic   = int(unsafe.Sizeof(kmsg.DescribeProducersRequestTopic{}))
	sizeDescribeTopic    = int(unsafe.Sizeof(kmsg.DescribeTopicPartitionsRequestTopic{}))
	sizeDescribeCursor   = int(unsafe.Sizeof(kmsg.DescribeTopicPartitionsRequestCursor{}))
	sizeQuorumTopic      = int(unsafe.Sizeof(kmsg.DescribeQuorumRequestTopic{}))
	sizeQuorumPartition  = int(unsafe.Sizeof(kmsg.DescribeQuorumRequestTopicPartition{}))
)

// guardRequest walks one body; false means that there is no walk for the API.
// Whoever adds a row to the table adds its walk here, and a test holds the two
// together.
func guardRequest(w *walk, key, v int16) bool {
	switch key {
	case KeyProduce:
		guardProduce(w, v)
	case KeyFetch:
		guardFetch(w, v)
	case KeyListOffsets:
		guardListOffsets(w, v)
	case KeyMetadata:
		guardMetadata(w, v)
	case KeyFindCoordinator:
		guardFindCoordinator(w, v)
	case KeyApiVersions:
		guardApiVersions(w, v)
	case KeyCreateTopics:
		guardCreateTopics(w)
	case KeyDeleteTopics:
		guardDeleteTopics(w, v)
	case KeyDeleteRecords:
		guardDeleteRecords(w)
	case KeyInitProducerID:
		guardInitProducerID(w, v)
	case KeyOffsetForLeaderEpoch:
		guardOffsetForLeaderEpoch(w, v)
	case KeyDescribeConfigs:
		guardDescribeConfigs(w, v)
	case KeyAlterConfigs:
		guardAlterConfigs(w, false)
	case KeyIncrementalAlterConfigs:
		guardAlterConfigs(w, true)
	case KeyDescribeClientQuotas:
		guardDescribeClientQuotas(w)
	case KeyAlterClientQuotas:
		guardAlterClientQuotas(w)
	case KeyDescribeUserScram:
		for n := w.nullArray(sizeScramUser); n > 0 && w.err == nil; n-- {
			w.str()
			w.tags(0)
		}
		w.tags(0)
	case KeyDescribeLogDirs:
		guardDescribeLogDirs(w)
	case KeyCreatePartitions:
		guardCreatePartitions(w)
	case KeyDescribeQuorum:
		guardDescribeQuorum(w)
	case KeyDescribeCluster:
		guardDescribeCluster(w, v)
	case KeyDescribeProducers:
		guardDescribeProducers(w)
	case KeyGetTelemetrySubs:
		w.skip(16) // client instance id
		w.tags(0)
	case KeyPushTelemetry:
		w.skip(16 + 4 + 1 + 1) // client instance id, subscription id, terminating, codec
		w.bytes()
		w.tags(0)
	case KeyListConfigResources:
		if v >= 1 {
			w.fixed(1) // types
		}
		w.tags(0)
	case KeyDescribeTopicPartitions:
		guardDescribeTopicPartitions(w)
	case KeyElectLeaders, KeyAlterReassignments, KeyListReassignments, KeyUpdateFeatures, KeyUnregisterBroker,
		KeyAddRaftVoter, KeyRemoveRaftVoter:
		guardCluster(w, key, v)
	case KeyAlterPartition:
		guardAlterPartition(w, v)
	case KeyBrokerRegistration:
		guardBrokerRegistration(w, v)
	case KeyBrokerHeartbeat:
		guardBrokerHeartbeat(w)
	case KeyAllocateProducerIDs:
		w.skip(4 + 8) // broker id, broker epoch
		w.tags(0)
	default:
		return guardGroups(w, key, v)
	}
	return true
}

func guardProduce(w *walk, v int16) {
	w.nullStr()   // transactional id
	w.skip(2 + 4) // acks, timeout
	for n := w.array(sizeProduceTopic); n > 0 && w.err == nil; n-- {
		w.topic(v >= 13)
		for p := w.array(sizeProducePartition); p > 0 && w.err == nil; p-- {
			w.skip(4) // partition
			w.nullBytes()
			w.tags(0)
		}
		w.tags(0)
	}
	w.tags(0)
}

// topic passes a topic's id or its name.
func (w *walk) topic(byID bool) {
	if byID {
		w.skip(16)
		return
	}
	w.str()
}

func guardFetch(w *walk, v int16) {
	if v <= 14 {
		w.skip(4) // replica id
	}
	w.skip(4 + 4 + 4 + 1) // max wait, min bytes, max bytes, isolation
	if v >= 7 {
		w.skip(4 + 4) // session id and epoch
	}
	guardFetchTopics(w, v)
	if v >= 7 {
		for n := w.array(sizeFetchForgotten); n > 0 && w.err == nil; n-- {
			w.topic(v >= 13)
			w.fixed(4) // partitions
			w.tags(0)
		}
	}
	if v >= 11 {
		w.str() // rack
	}
	switch {
	case v >= 15:
		w.tags(1<<0 | 1<<1) // cluster id, replica state
	default:
		w.tags(1 << 0)
	}
}

func guardFetchTopics(w *walk, v int16) {
	size := 4 + 8 + 4 // partition, offset, max bytes
	if v >= 5 {
		size += 8 // log start
	}
	if v >= 9 {
		size += 4 // current leader epoch
	}
	if v >= 12 {
		size += 4 // last fetched epoch
	}
	var known uint32
	if v >= 17 {
		known |= 1 << 0 // directory id
	}
	if v >= 18 {
		known |= 1 << 1 // high watermark
	}
	for n := w.array(sizeFetchTopic); n > 0 && w.err == nil; n-- {
		w.topic(v >= 13)
		for p := w.array(sizeFetchPartition); p > 0 && w.err == nil; p-- {
			w.skip(size)
			w.tags(known)
		}
		w.tags(0)
	}
}

func guardListOffsets(w *walk, v int16) {
	w.skip(4) // replica id
	if v >= 2 {
		w.skip(1) // isolation
	}
	size := 4 + 8 // partition, timestamp
	if v >= 4 {
		size += 4 // current leader epoch
	}
	for n := w.array(sizeListTopic); n > 0 && w.err == nil; n-- {
		w.str()
		for p := w.array(sizeListPartition); p > 0 && w.err == nil; p-- {
			w.skip(size)
			w.tags(0)
		}
		w.tags(0)
	}
	if v >= 10 {
		w.skip(4) // timeout
	}
	w.tags(0)
}

func guardMetadata(w *walk, v int16) {
	var n int
	if v >= 1 {
		n = w.nullArray(sizeMetadataTopic)
	} else {
		n = w.array(sizeMetadataTopic)
	}
	for ; n > 0 && w.err == nil; n-- {
		switch {
		case v >= 10:
			w.skip(16)
			w.nullStr()
		default:
			w.charge(1, sizeString)
			w.str()
		}
		w.tags(0)
	}
	if v >= 4 {
		w.skip(1) // allow auto creation
	}
	if v >= 8 && v <= 10 {
		w.skip(1) // include cluster operations
	}
	if v >= 8 {
		w.skip(1) // include topic operations
	}
	w.tags(0)
}

func guardFindCoordinator(w *walk, v int16) {
	if v <= 3 {
		w.str() // key
	}
	if v >= 1 {
		w.skip(1) // type
	}
	if v >= 4 {
		w.strings(w.array(sizeString))
	}
	w.tags(0)
}

// strings passes n strings, the array's own memory being charged already.
func (w *walk) strings(n int) {
	for ; n > 0 && w.err == nil; n-- {
		w.str()
	}
}

func guardApiVersions(w *walk, v int16) {
	if v >= 3 {
		w.str() // software name
		w.str() // software version
	}
	w.tags(0)
}

func guardDeleteRecords(w *walk) {
	for n := w.array(sizeDeleteRecTopic); n > 0 && w.err == nil; n-- {
		w.str()
		for p := w.array(sizeDeleteRecPart); p > 0 && w.err == nil; p-- {
			w.skip(4 + 8) // partition, offset
			w.tags(0)
		}
		w.tags(0)
	}
	w.skip(4) // timeout
	w.tags(0)
}

func guardInitProducerID(w *walk, v int16) {
	w.nullStr() // transactional id
	w.skip(4)   // timeout
	if v >= 3 {
		w.skip(8 + 2) // producer id, producer epoch
	}
	w.tags(0)
}

func guardOffsetForLeaderEpoch(w *walk, v int16) {
	if v >= 3 {
		w.skip(4) // replica id
	}
	for n := w.array(sizeEpochTopic); n > 0 && w.err == nil; n-- {
		w.str()
		for p := w.array(sizeEpochPartition); p > 0 && w.err == nil; p-- {
			w.skip(4 + 4 + 4) // partition, current leader epoch, leader epoch
			w.tags(0)
		}
		w.tags(0)
	}
	w.tags(0)
}

func guardDescribeQuorum(w *walk) {
	for n := w.array(sizeQuorumTopic); n > 0 && w.err == nil; n-- {
		w.str()
		for p := w.array(sizeQuorumPartition); p > 0 && w.err == nil; p-- {
			w.skip(4) // partition
			w.tags(0)
		}
		w.tags(0)
	}
	w.tags(0)
}

func guardDescribeCluster(w *walk, v int16) {
	w.skip(1) // include cluster operations
	if v >= 1 {
		w.skip(1) // endpoint type
	}
	if v >= 2 {
		w.skip(1) // include fenced brokers
	}
	w.tags(0)
}

func guardDescribeProducers(w *walk) {
	for n := w.array(sizeProducersTopic); n > 0 && w.err == nil; n-- {
		w.str()
		w.fixed(4) // partitions
		w.tags(0)
	}
	w.tags(0)
}

func guardDescribeTopicPartitions(w *walk) {
	for n := w.array(sizeDescribeTopic); n > 0 && w.err == nil; n-- {
		w.str()
		w.tags(0)
	}
	w.skip(4) // partition limit
	if len(w.src) > 0 && int8(w.src[0]) < 0 {
		w.skip(1) // no cursor
	} else {
		w.skip(1)
		w.charge(1, sizeDescribeCursor)
		w.str()
		w.skip(4) // partition
		w.tags(0)
	}
	w.tags(0)
}
