package controller

import (
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Command is one request to the active controller. The request is read until
// the reply was given and never written to.
type Command struct {
	// Request is one of CreateTopics, DeleteTopics, CreatePartitions,
	// AlterConfigs, IncrementalAlterConfigs, AlterClientQuotas, ElectLeaders,
	// AlterPartitionAssignments, AlterPartition, UpdateFeatures,
	// BrokerRegistration, BrokerHeartbeat, UnregisterBroker,
	// AllocateProducerIDs. It is nil with Hints or Damage, which are not answered.
	Request kmsg.Request
	// Deadline: a command that has not begun by then is answered with
	// REQUEST_TIMED_OUT and has no effect. Zero and model.Never mean none.
	Deadline model.Instant
	// Registration goes with a BrokerRegistration and says what Kafka's request
	// has no room for; nil derives it from the request.
	Registration *RegistrationFacts
	// Hints and Damage, with a nil Request, are commands of the cluster itself.
	Hints  []FenceHint
	Damage *DamageReport
}

// Name names the command for people.
func (c *Command) Name() string {
	switch {
	case c.Request != nil:
		return kmsg.NameForKey(c.Request.Key())
	case c.Hints != nil:
		return "fence hint"
	case c.Damage != nil:
		return "damage report"
	}
	return "none"
}

// RegistrationFacts is what a starting broker knows of its disk.
type RegistrationFacts struct {
	// Stop is how the previous life of the broker ended.
	Stop metadata.Stop
	// Damaged are replicas that are quarantined, or missing although the image
	// lists them. One that is among Ends too is there, but may have lost what it had
	// synced badly, as after a stop of kind power: an fsync of it has failed.
	Damaged []model.TopicIDPartition
	// Ends are the replicas that are there, with what they hold after a stop of
	// kind power. Where nobody is known to be complete any more, the one with
	// the most is elected. nil: the broker doesn't say. Else a replica that is not
	// listed, or is empty, was not written yet if its directory is still the same,
	// and is missing if it is another.
	Ends []ReplicaEnd
}

// ReplicaEnd is the end of one replica's log.
type ReplicaEnd struct {
	model.TopicIDPartition
	// End is the log's end and the epoch of its last batch.
	End model.OffsetAndEpoch
}

// FenceHint reports that a broker is gone before its session ends: its port
// refused two connects at least 50 ms apart. A broker that has been heard since
// is not fenced. Those that are found gone together are best told together.
type FenceHint struct {
	Broker model.BrokerID
	// Since is when the first connect was refused.
	Since model.Instant
}

// DamageReport says that replicas of a running broker are quarantined, and of
// which partitions that it leads the disk does not answer.
type DamageReport struct {
	Broker            model.BrokerID
	Epoch             model.BrokerEpoch
	Replicas, Stalled []model.TopicIDPartition
	// Remnants are those of Replicas that can be read below their damage, with
	// metadata.RemnantEnd of where that is.
	Remnants []ReplicaEnd
}

// Result is what Handle makes of a command.
type Result struct {
	// Units are the records to commit, in order. Each unit belongs into one
	// entry of the log; the image is valid after each. None: the reply may be
	// given at once.
	Units [][]metadata.Record
	// Last: no other command may be computed before these records are
	// committed, because what they do depends on the offset of their entry.
	Last bool

	reply    kmsg.Response
	register bool
}

// Reply returns the answer. at is the offset and term of the last entry of the
// command, or of the image if there was none.
func (r *Result) Reply(at model.OffsetAndEpoch) kmsg.Response {
	if reg, ok := r.reply.(*kmsg.BrokerRegistrationResponse); ok && r.register {
		reg.BrokerEpoch = int64(at.Offset)
	}
	return r.reply
}

// Records returns all records in order.
func (r *Result) Records() []metadata.Record {
	var all []metadata.Record
	for _, u := range r.Units {
		all = append(all, u...)
	}
	return all
}
