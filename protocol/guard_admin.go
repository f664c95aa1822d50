package protocol

import (
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What kmsg allocates for one element of each array of structs in the requests
// that change the cluster.
const (
	sizeCreateTopic      = int(unsafe.Sizeof(kmsg.CreateTopicsRequestTopic{}))
	sizeCreateAssignment = int(unsafe.Sizeof(kmsg.CreateTopicsRequestTopicReplicaAssignment{}))
	sizeCreateConfig     = int(unsafe.Sizeof(kmsg.CreateTopicsRequestTopicConfig{}))
	sizeDeleteTopic      = int(unsafe.Sizeof(kmsg.DeleteTopicsRequestTopic{}))
	sizeDescribeConfig   = int(unsafe.Sizeof(kmsg.DescribeConfigsRequestResource{}))
	sizeAlterResource    = int(unsafe.Sizeof(kmsg.AlterConfigsRequestResource{}))
	sizeAlterConfig      = int(unsafe.Sizeof(kmsg.AlterConfigsRequestResourceConfig{}))
	sizeIncrResource     = int(unsafe.Sizeof(kmsg.IncrementalAlterConfigsRequestResource{}))
	sizeIncrConfig       = int(unsafe.Sizeof(kmsg.IncrementalAlterConfigsRequestResourceConfig{}))
	sizeLogDirsTopic     = int(unsafe.Sizeof(kmsg.DescribeLogDirsRequestTopic{}))
	sizePartitionsTopic  = int(unsafe.Sizeof(kmsg.CreatePartitionsRequestTopic{}))
	sizePartitionsAssign = int(unsafe.Sizeof(kmsg.CreatePartitionsRequestTopicAssignment{}))
	sizeAlterISRTopic    = int(unsafe.Sizeof(kmsg.AlterPartitionRequestTopic{}))
	sizeAlterISRPart     = int(unsafe.Sizeof(kmsg.AlterPartitionRequestTopicPartition{}))
	sizeAlterISRMember   = int(unsafe.Sizeof(kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{}))
	sizeQuotaComponent   = int(unsafe.Sizeof(kmsg.DescribeClientQuotasRequestComponent{}))
	sizeQuotaEntry       = int(unsafe.Sizeof(kmsg.AlterClientQuotasRequestEntry{}))
	sizeQuotaEntity      = int(unsafe.Sizeof(kmsg.AlterClientQuotasRequestEntryEntity{}))
	sizeQuotaOp          = int(unsafe.Sizeof(kmsg.AlterClientQuotasRequestEntryOp{}))
	sizeScramUser        = int(unsafe.Sizeof(kmsg.DescribeUserSCRAMCredentialsRequestUser{}))
	sizeRegListener      = int(unsafe.Sizeof(kmsg.BrokerRegistrationRequestListener{}))
	sizeRegFeature       = int(unsafe.Sizeof(kmsg.BrokerRegistrationRequestFeature{}))
)

func guardCreateTopics(w *walk) {
	for n := w.array(sizeCreateTopic); n > 0 && w.err == nil; n-- {
		w.str()
		w.skip(4 + 2) // partitions, replication factor
		for a := w.array(sizeCreateAssignment); a > 0 && w.err == nil; a-- {
			w.skip(4)  // partition
			w.fixed(4) // replicas
			w.tags(0)
		}
		for c := w.array(sizeCreateConfig); c > 0 && w.err == nil; c-- {
			w.str()
			w.nullStr()
			w.tags(0)
		}
		w.tags(0)
	}
	w.skip(4 + 1) // timeout, validate only
	w.tags(0)
}

func guardDeleteTopics(w *walk, v int16) {
	if v <= 5 {
		w.strings(w.array(sizeString))
	} else {
		for n := w.array(sizeDeleteTopic); n > 0 && w.err == nil; n-- {
			w.nullStr()
			w.skip(16)
			w.tags(0)
		}
	}
	w.skip(4) // timeout
	w.tags(0)
}

func guardDescribeConfigs(w *walk, v int16) {
	for n := w.array(sizeDescribeConfig); n > 0 && w.err == nil; n-- {
		w.skip(1) // type
		w.str()
		w.strings(w.nullArray(sizeString))
		w.tags(0)
	}
	w.skip(1) // include synonyms
	if v >= 3 {
		w.skip(1) // include documentation
	}
	w.tags(0)
}

func guardAlterConfigs(w *walk, incremental bool) {
	resource, entry := sizeAlterResource, sizeAlterConfig
	if incremental {
		resource, entry = sizeIncrResource, sizeIncrConfig
	}
	for n := w.array(resource); n > 0 && w.err == nil; n-- {
		w.skip(1) // type
		w.str()
		for c := w.array(entry); c > 0 && w.err == nil; c-- {
			w.str()
			if incremental {
				w.skip(1) // operation
			}
			w.nullStr()
			w.tags(0)
		}
		w.tags(0)
	}
	w.skip(1) // validate only
	w.tags(0)
}

func guardDescribeClientQuotas(w *walk) {
	for n := w.array(sizeQuotaComponent); n > 0 && w.err == nil; n-- {
		w.str()
		w.skip(1) // match type
		w.nullStr()
		w.tags(0)
	}
	w.skip(1) // strict
	w.tags(0)
}

func guardAlterClientQuotas(w *walk) {
	for n := w.array(sizeQuotaEntry); n > 0 && w.err == nil; n-- {
		for p := w.array(sizeQuotaEntity); p > 0 && w.err == nil; p-- {
			w.str()
			w.nullStr()
			w.tags(0)
		}
		for o := w.array(sizeQuotaOp); o > 0 && w.err == nil; o-- {
			w.str()
			w.skip(8 + 1) // value, remove
			w.tags(0)
		}
		w.tags(0)
	}
	w.skip(1) // validate only
	w.tags(0)
}

func guardDescribeLogDirs(w *walk) {
	for n := w.nullArray(sizeLogDirsTopic); n > 0 && w.err == nil; n-- {
		w.str()
		w.fixed(4) // partitions
		w.tags(0)
	}
	w.tags(0)
}

func guardCreatePartitions(w *walk) {
	for n := w.array(sizePartitionsTopic); n > 0 && w.err == nil; n-- {
		w.str()
		w.skip(4) // count
		for a := w.nullArray(sizePartitionsAssign); a > 0 && w.err == nil; a-- {
			w.fixed(4) // replicas
			w.tags(0)
		}
		w.tags(0)
	}
	w.skip(4 + 1) // timeout, validate only
	w.tags(0)
}

func guardAlterPartition(w *walk, v int16) {
	w.skip(4 + 8) // broker id, broker epoch
	for n := w.array(sizeAlterISRTopic); n > 0 && w.err == nil; n-- {
		w.skip(16) // topic id
		for p := w.array(sizeAlterISRPart); p > 0 && w.err == nil; p-- {
			w.skip(4 + 4) // partition, leader epoch
			if v <= 2 {
				w.fixed(4) // members
			} else {
				for m := w.array(sizeAlterISRMember); m > 0 && w.err == nil; m-- {
					w.skip(4 + 8) // broker id, broker epoch
					w.tags(0)
				}
			}
			w.skip(1 + 4) // recovery state, partition epoch
			w.tags(0)
		}
		w.tags(0)
	}
	w.tags(0)
}

func guardBrokerRegistration(w *walk, v int16) {
	w.skip(4) // broker id
	w.str()   // cluster id
	w.skip(16)
	for n := w.array(sizeRegListener); n > 0 && w.err == nil; n-- {
		w.str()
		w.str()
		w.skip(2 + 2) // port, security protocol
		w.tags(0)
	}
	for n := w.array(sizeRegFeature); n > 0 && w.err == nil; n-- {
		w.str()
		w.skip(2 + 2) // lowest, highest level
		w.tags(0)
	}
	w.nullStr() // rack
	if v >= 1 {
		w.skip(1) // migrating from ZooKeeper
	}
	if v >= 2 {
		w.fixed(16) // directories
	}
	if v >= 3 {
		w.skip(8) // previous epoch
	}
	w.tags(0)
}

func guardBrokerHeartbeat(w *walk) {
	w.skip(4 + 8 + 8 + 1 + 1) // broker id, broker epoch, offset, fence, shutdown
	w.tags(1 << 0)            // offline directories
}
