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
	// AlterConfigs, IncrementalAlterConfigs, BrokerRegistration,
	// BrokerHeartbeat, UnregisterBroker, AllocateProducerIDs.
	Request kmsg.Request
	// Deadline: a command that has not begun by then is answered with
	// REQUEST_TIMED_OUT and has no effect. Zero and model.Never mean none.
	Deadline model.Instant
	// Registration goes with a BrokerRegistration and says what Kafka's request
	// has no room for; nil derives it from the request.
	Registration *RegistrationFacts
}

// RegistrationFacts is what a starting broker knows of its disk.
type RegistrationFacts struct {
	// Stop is how the previous life of the broker ended.
	Stop metadata.Stop
	// Damaged are replicas that are quarantined, or missing although the image
	// lists them.
	Damaged []model.TopicIDPartition
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
