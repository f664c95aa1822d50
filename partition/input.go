package partition

import (
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/purgatory"
	"github.com/tidemark/tidemark/protocol/record"
)

// Kind says which fact an Input carries.
type Kind uint8

// The kinds of Input. Each role has one method for each of them.
const (
	// KindProduce asks to append Input.Produce.
	KindProduce Kind = iota + 1
	// KindWait registers Input.Wait for the moving of an end.
	KindWait
	// KindCancel takes Input.Wait back, if it still waits.
	KindCancel
	// KindReplicaFetch reports Input.Replica: a follower's fetch.
	KindReplicaFetch
	// KindDeleteRecords asks to raise the log start, Input.Delete.
	KindDeleteRecords
	// KindRegistration brings what the cluster has agreed on, Input.Registration.
	KindRegistration
	// KindAlterAnswered brings the controller's answer, Input.Alter.
	KindAlterAnswered
	// KindConfig brings new settings, Input.Config.
	KindConfig
	// KindWritten completes the outstanding Write, Input.Written.
	KindWritten
	// KindFlushed says that the log is durable below Input.Flushed.
	KindFlushed
	// KindOffline says that the log can't be used any more, Input.Code.
	KindOffline
	// KindFlushOld asks for a background flush of whatever is unsynced.
	KindFlushOld
	// KindFetched brings the leader's answer to a follower's fetch, Input.Fetched.
	KindFetched
	// KindTick says that NextDeadline has passed.
	KindTick
	// KindRetain asks to give up what lies below Input.Retain.
	KindRetain
	// KindStartKept completes the outstanding Output.KeepStart, Input.Start.
	KindStartKept
)

// Input is one fact for Step. Only the field of its Kind is read.
type Input struct {
	Kind         Kind
	Produce      *Produce
	Wait         *FetchWait
	Replica      *ReplicaFetch
	Delete       *DeleteRecords
	Registration *Registration
	Config       *Config
	Fetched      *Fetched
	Alter        AlterAnswer
	Written      Written
	Flushed      model.Offset
	Retain       model.Offset
	Start        StartKept
	Code         Code
}

// Produce is one batch to append and, once the core has emitted it, the answer.
// The caller owns it and keeps it, and the batch's bytes until the append is
// done, from Step to the Output that lists it.
type Produce struct {
	purgatory.Node // Required and Deadline; the caller sets Deadline

	// Prepared is the validated batch; its Batch may alias a request's frame.
	Prepared record.Prepared
	// Rejection is what validation found. It is reported only after the checks
	// that Kafka makes before it.
	Rejection *record.Rejection
	// Acks is 0, 1 or -1 (all).
	Acks int16
	// ControllerHeard is when this broker last heard of a controller that had its
	// term confirmed by a quorum.
	ControllerHeard model.Instant
	// Token is the caller's; the core only carries it.
	Token any

	// Result is filled in before the Produce is emitted.
	Result ProduceResult

	needDurable bool // waits for the disk too
}

// Place returns the node by which a Produce waits.
func (m *Produce) Place() *purgatory.Node { return &m.Node }

// ProduceResult is the answer to a Produce.
type ProduceResult struct {
	Code    Code
	Message string
	// Records names the records at fault; nil but for record validation.
	Records []record.RecordError
	// BaseOffset is the offset of the first record, -1 on failure.
	BaseOffset model.Offset
	// LogStart is the log start offset, -1 for the errors where Kafka hides it.
	LogStart model.Offset
	// AppendTime is the timestamp that LogAppendTime gave, else -1.
	AppendTime model.Timestamp
	// Leader and LeaderEpoch are the known leader; for CurrentLeader (KIP-951).
	Leader      model.BrokerID
	LeaderEpoch model.LeaderEpoch
}

// Bound is the end up to which a reader may see.
type Bound uint8

// The bounds, from the lowest to the highest.
const (
	BoundLastStable    Bound = iota // read_committed consumers
	BoundHighWatermark              // other consumers
	BoundLogEnd                     // followers
	bounds
)

// FetchWait is a fetch that found too little and wants to be told when the end
// it may read to has moved, once. The caller owns it; while it waits only the
// partition touches it.
type FetchWait struct {
	link purgatory.Link[*FetchWait]

	// Bound says which end is watched.
	Bound Bound
	// From is the fetch offset.
	From model.Offset
	// Seen is the state on which the fetch decided to wait. A partition that has
	// moved on since then wakes the fetch at once.
	Seen Mark
	// Token is the caller's; the core only carries it.
	Token any
}

// Waiting says whether a partition holds w.
func (w *FetchWait) Waiting() bool { return w.link.Waiting() }

// ReplicaFetch is a follower's fetch and, once emitted, the leader's verdict.
// Source: KIP-101, KIP-595 (truncation on fetch), KIP-903 (broker epoch).
type ReplicaFetch struct {
	Replica model.BrokerID
	// BrokerEpoch is the follower's incarnation, -1 if the request has none.
	BrokerEpoch model.BrokerEpoch
	// CurrentEpoch is the leader epoch that the follower believes in, or -1.
	CurrentEpoch model.LeaderEpoch
	// Offset is where the follower's log ends.
	Offset model.Offset
	// LastEpoch is the epoch of the follower's last record, or -1.
	LastEpoch model.LeaderEpoch
	// LogStart is the follower's log start.
	LogStart model.Offset
	// Reread is true when a parked fetch is answered: progress was counted when
	// it came.
	Reread bool
	// Lease is the follower's session, nil if it has none or each of its fetches
	// is told.
	Lease Lease
	// Token is the caller's.
	Token any

	// Result is filled in before the ReplicaFetch is emitted.
	Result ReplicaResult
}

// ReplicaResult is the leader's verdict on a follower's fetch.
type ReplicaResult struct {
	Code Code
	// Diverging is set (Epoch ≥ 0) when the follower must truncate first.
	Diverging model.OffsetAndEpoch
	// Mark is the state before the fetch's own progress was counted. The
	// follower may read below its LogEnd.
	Mark Mark
	// Leased: the Lease was granted.
	Leased bool
}

// DeleteRecords asks to raise the log start. Source: KIP-107.
type DeleteRecords struct {
	purgatory.Node // the caller sets Deadline

	// Offset is the first record to keep; -1 means the high watermark.
	Offset model.Offset
	// Token is the caller's.
	Token any

	// Code and LowWatermark are filled in before the answer is emitted.
	// LowWatermark is the least log start of the live replicas, -1 on failure.
	Code         Code
	LowWatermark model.Offset
}

// Place returns the node by which a DeleteRecords waits.
func (d *DeleteRecords) Place() *purgatory.Node { return &d.Node }

// Peer is what the cluster knows of one assigned replica's broker.
type Peer struct {
	ID model.BrokerID
	// Epoch is the broker's present incarnation, -1 if it isn't registered.
	Epoch model.BrokerEpoch
	// Alive means registered and not fenced.
	Alive bool
	// Eligible means alive and not in controlled shutdown: it may be in the ISR.
	Eligible bool
}

// Registration is what an image says about the partition.
type Registration struct {
	// At is the metadata offset of the image.
	At model.OffsetAndEpoch
	// Leader is NoLeader when nobody leads.
	Leader         model.BrokerID
	LeaderEpoch    model.LeaderEpoch
	PartitionEpoch model.PartitionEpoch
	// Replicas in assignment order, this broker among them.
	Replicas []Peer
	// ISR is the committed in-sync set.
	ISR []model.BrokerID
}

// AlterAnswer is the controller's answer to an AlterPartition.
type AlterAnswer struct {
	// Token is that of the AlterPartition answered.
	Token uint64
	Code  Code
	// Retriable is for failures without an answer: the request is sent again.
	Retriable bool
}

// Fault says how a write failed.
type Fault uint8

// The outcomes of a Write.
const (
	// FaultNone: it was done.
	FaultNone Fault = iota
	// FaultRefused: nothing changed and the log is sound, as on a full disk.
	FaultRefused
	// FaultBroken: the log can't be used any more.
	FaultBroken
)

// Written completes the outstanding Write.
type Written struct {
	Fault Fault
	// LogStart and LogEnd are the log's bounds afterwards.
	LogStart model.Offset
	LogEnd   model.Offset
	// Rolled is true when an append closed a segment.
	Rolled bool
	// MaxTimestamp is the greatest of an append's batches.
	MaxTimestamp model.Timestamp
}

// StartKept completes the outstanding Output.KeepStart.
type StartKept struct {
	// Fault is FaultNone or FaultRefused: the checkpoint could not be written.
	Fault Fault
	// LogStart is where the log begins for whoever starts after a crash.
	LogStart model.Offset
}

// Config is what the partition needs of the settings.
type Config struct {
	// MinISR is min.insync.replicas.
	MinISR int32
	// SegmentBytes bounds one append.
	SegmentBytes int32
	// FlushMessages is how many records may be unsynced before an append waits
	// for the disk; 1 makes every acknowledgement wait.
	FlushMessages int64
	// FlushAfter is the longest time in nanoseconds that a record stays unsynced
	// before a flush is asked for; 0 makes every acknowledgement wait, Never
	// leaves it to the operating system.
	FlushAfter model.Instant
	// LogAppendTime stamps records with the broker's clock.
	LogAppendTime bool
	// DeleteAllowed: cleanup.policy contains delete. Compacted: it contains compact.
	DeleteAllowed, Compacted bool
	// ReplicaLagMax is replica.lag.time.max.ms in nanoseconds.
	ReplicaLagMax model.Instant
	// ProducerExpiryMs is producer.id.expiration.ms.
	ProducerExpiryMs int64
	// FenceAfter is the broker's session time in nanoseconds: how long a leader
	// that hears neither the controller nor enough followers takes writes. 0
	// means for ever.
	FenceAfter model.Instant
}

// FlushBeforeAck reports whether acknowledgements wait for the disk.
func (c *Config) FlushBeforeAck() bool { return c.FlushMessages == 1 || c.FlushAfter == 0 }
