package protocol

import (
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What kmsg allocates for one element of each array of structs in the requests
// that move replicas, leaders and members.
const (
	sizeElectTopic    = int(unsafe.Sizeof(kmsg.ElectLeadersRequestTopic{}))
	sizeReassignTopic = int(unsafe.Sizeof(kmsg.AlterPartitionAssignmentsRequestTopic{}))
	sizeReassignPart  = int(unsafe.Sizeof(kmsg.AlterPartitionAssignmentsRequestTopicPartition{}))
	sizeListReassign  = int(unsafe.Sizeof(kmsg.ListPartitionReassignmentsRequestTopic{}))
	sizeFeatureUpdate = int(unsafe.Sizeof(kmsg.UpdateFeaturesRequestFeatureUpdate{}))
	sizeVoterListener = int(unsafe.Sizeof(kmsg.AddRaftVoterRequestListener{}))
)

func guardCluster(w *walk, key, v int16) {
	switch key {
	case KeyElectLeaders:
		guardElectLeaders(w, v)
	case KeyAlterReassignments:
		guardAlterReassignments(w, v)
	case KeyListReassignments:
		w.skip(4) // timeout
		w.topicPartitions(w.nullArray(sizeListReassign))
		w.tags(0)
	case KeyUpdateFeatures:
		guardUpdateFeatures(w, v)
	case KeyUnregisterBroker:
		w.skip(4) // broker id
		w.tags(0)
	case KeyAddRaftVoter:
		guardAddRaftVoter(w, v)
	case KeyRemoveRaftVoter:
		w.nullStr()    // cluster id
		w.skip(4 + 16) // voter id, its directory
		w.tags(0)
	}
}

// topicPartitions passes n topics with the numbers of their partitions.
func (w *walk) topicPartitions(n int) {
	for ; n > 0 && w.err == nil; n-- {
		w.str()
		w.fixed(4) // partitions
		w.tags(0)
	}
}

func guardElectLeaders(w *walk, v int16) {
	if v >= 1 {
		w.skip(1) // type of election
	}
	w.topicPartitions(w.nullArray(sizeElectTopic))
	w.skip(4) // timeout
	w.tags(0)
}

func guardAlterReassignments(w *walk, v int16) {
	w.skip(4) // timeout
	if v >= 1 {
		w.skip(1) // allow another replication factor
	}
	for n := w.array(sizeReassignTopic); n > 0 && w.err == nil; n-- {
		w.str()
		for p := w.array(sizeReassignPart); p > 0 && w.err == nil; p-- {
			w.skip(4) // partition
			if r := w.length(true, true); r > 0 {
				w.skip(r * 4) // replicas
			}
			w.tags(0)
		}
		w.tags(0)
	}
	w.tags(0)
}

func guardUpdateFeatures(w *walk, v int16) {
	w.skip(4) // timeout
	for n := w.array(sizeFeatureUpdate); n > 0 && w.err == nil; n-- {
		w.str()
		w.skip(2 + 1) // level, downgrade allowed or kind of upgrade
		w.tags(0)
	}
	if v >= 1 {
		w.skip(1) // validate only
	}
	w.tags(0)
}

func guardAddRaftVoter(w *walk, v int16) {
	w.nullStr()        // cluster id
	w.skip(4 + 4 + 16) // timeout, voter id, its directory
	for n := w.array(sizeVoterListener); n > 0 && w.err == nil; n-- {
		w.str()
		w.str()
		w.skip(2) // port
		w.tags(0)
	}
	if v >= 1 {
		w.skip(1) // answer when committed
	}
	w.tags(0)
}
