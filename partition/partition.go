package partition

import (
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/partition/purgatory"
)

// Log is what the core may ask of its partition's log. It is read in the
// partition's loop only, and changes only by the executor's writes.
type Log interface {
	// Epochs says where each leader epoch starts.
	Epochs() *epoch.Cache
	// Producers is the state of the idempotent producers.
	Producers() *producer.StateManager
}

// Loaded is what the executor found on the disk.
type Loaded struct {
	LogStart model.Offset
	LogEnd   model.Offset
	// HighWatermark is the checkpoint's hint; it is bounded by the log.
	HighWatermark model.Offset
	// Durable is the end below which everything survives a power failure.
	Durable model.Offset
	// DurableStart is what the checkpoint says of the log start.
	DurableStart model.Offset
	// AppendTime is the newest timestamp that LogAppendTime may have given.
	AppendTime model.Timestamp
}

// Partition is the replication state of one partition on one broker. It is
// owned by the partition's loop; only Step touches it.
type Partition struct {
	self model.BrokerID
	plog Log
	cfg  Config
	role role

	mark    Mark         // written by setEnds and the become functions
	durable model.Offset // Invariant: durable ≤ mark.LogEnd
	start   startState
	// appendTime is the last timestamp that LogAppendTime gave; it never falls.
	appendTime model.Timestamp

	// Leadership. leader and the epochs are the last registration's.
	leader         model.BrokerID
	partitionEpoch model.PartitionEpoch
	epochStart     model.Offset // log end when the present epoch began; leader only
	peers          []Peer
	isr            isr
	remote         []replica // every assigned replica but this one; leader only
	shrinkAt       model.Instant

	// One write at a time. What comes meanwhile waits in deferred, in order.
	writing  WriteKind
	inFlight *Produce // whose append is outstanding
	applying *Fetched // whose write is outstanding
	raising  *DeleteRecords
	deferred []Input

	// Following.
	follows  followState
	gaps     gaps
	settling *Fetched // done, but for the disk or for Step to emit it

	// Leading. ledSince is when the present epoch's leadership began here.
	ledSince model.Instant
	cutOff   bool // as of the last produce

	// Flushing. One flush at a time; flushWanted is what to ask for next.
	flushing    bool
	flushWanted Urgency
	flushAt     model.Instant // FlushAfter since the oldest unsynced record

	replicated purgatory.Queue[*Produce]       // acks=all, by high watermark
	synced     purgatory.Queue[*Produce]       // flush before ack, by durable end
	deletes    purgatory.Queue[*DeleteRecords] // by low watermark
	waiters    [bounds]purgatory.List[*FetchWait]

	offlineCode Code
	sweepAt     model.Instant // next expiry of idle producers; Never while there are none
}

// producerSweep is how often idle producers are dropped: ten minutes.
const producerSweep = model.Instant(10 * 60 * 1e9)

// New returns a partition that was just loaded. It follows nobody and answers
// NOT_LEADER_OR_FOLLOWER until a registration comes: leadership needs an image
// committed after this broker's registration.
func New(self model.BrokerID, plog Log, cfg Config, found Loaded, now model.Now) *Partition {
	p := &Partition{
		self: self, plog: plog, cfg: cfg, role: follower{},
		leader: model.NoLeader, partitionEpoch: model.NoPartEpoch, epochStart: model.NoOffset,
		appendTime: found.AppendTime,
		shrinkAt:   model.Never, flushAt: model.Never, sweepAt: model.Never,
	}
	p.mark.Role, p.mark.LeaderEpoch = Follower, model.NoEpoch
	start, hw, end := clampEnds(found.LogStart, found.HighWatermark, found.LogEnd)
	var none Output
	p.setEnds(start, hw, end, &none)
	p.durable = max(0, min(found.Durable, end))
	p.start.durable = max(0, min(found.DurableStart, start))
	p.watchProducers(now)
	return p
}

// NewOffline returns a partition without a usable log: every request is
// answered with code.
func NewOffline(self model.BrokerID, code Code) *Partition {
	p := &Partition{
		self: self, role: offline{}, offlineCode: code,
		leader: model.NoLeader, partitionEpoch: model.NoPartEpoch, epochStart: model.NoOffset,
		shrinkAt: model.Never, flushAt: model.Never, sweepAt: model.Never,
	}
	p.mark.LeaderEpoch = model.NoEpoch
	return p
}

// LeaderID returns the leader of the last registration, NoLeader if none.
func (p *Partition) LeaderID() model.BrokerID { return p.leader }

// PartitionEpoch returns that of the last registration, -1 before the first.
func (p *Partition) PartitionEpoch() model.PartitionEpoch { return p.partitionEpoch }

// EpochStart returns the log end at which the present leadership began; -1
// unless this replica leads.
func (p *Partition) EpochStart() model.Offset { return p.epochStart }

// Durable returns the end below which this replica survives a power failure.
func (p *Partition) Durable() model.Offset { return p.durable }

// OfflineCode returns what an offline partition answers.
func (p *Partition) OfflineCode() Code { return p.offlineCode }

// ISR returns the committed in-sync set; shared, read only.
func (p *Partition) ISR() []model.BrokerID { return p.isr.committed }

// MaximalISR returns every replica that the high watermark waits for: the
// committed in-sync set and whoever is being added; shared, read only.
func (p *Partition) MaximalISR() []model.BrokerID { return p.isr.maximal }

// EffectiveMinISR is min.insync.replicas, but not more than there are replicas.
func (p *Partition) EffectiveMinISR() int {
	return min(int(p.cfg.MinISR), len(p.peers))
}

// Busy says whether a write is outstanding, so that inputs are deferred.
func (p *Partition) Busy() bool { return p.writing != WriteNone }

// Waiting returns how many operations are parked: produces, deletes, fetches.
func (p *Partition) Waiting() (produces, deletes, fetches int) {
	for b := range bounds {
		fetches += p.waiters[b].Len()
	}
	return p.replicated.Len() + p.synced.Len(), p.deletes.Len(), fetches
}

// NextDeadline is when Step must be given a KindTick.
func (p *Partition) NextDeadline() model.Instant {
	if p.writing != WriteNone {
		// Nothing is decided before the completion comes.
		return model.Never
	}
	at := min(p.replicated.NextDeadline(), p.synced.NextDeadline(), p.deletes.NextDeadline())
	at = min(at, p.shrinkAt, p.sweepAt)
	if !p.flushing {
		at = min(at, p.flushAt)
	}
	return at
}
