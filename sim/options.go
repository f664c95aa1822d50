package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
)

// Kind is a kind of fault or of disturbance that a seed may have, and that can
// be left out with --without.
type Kind uint8

// The kinds.
const (
	KindKill    Kind = iota // the process dies between two events
	KindKillMid             // the process dies at a disk operation, perhaps with that write torn
	KindPower               // the machine loses power between two events
	KindPowerMid
	KindStop   // an orderly stop and a start
	KindEIO    // a write, read or directory operation fails
	KindFsync  // an fsync fails, and the pages are gone
	KindFull   // the disk is full for a while
	KindFlush  // fsyncs take their time
	KindWrite  // appends are done later than they were decided
	KindStall  // fsyncs and appends take seconds for a while
	KindClock  // the wall clock jumps
	KindCut    // connections break
	KindAdmin  // topics come, grow, change and go
	KindDelete // DeleteRecords
	KindInit   // producers ask for new ids
	// In clusters only.
	KindPartition // the network falls into parts that don't reach each other
	KindOneWay    // one direction between two nodes is blocked
	KindClog      // one direction between two nodes is slow
	KindReset     // connections between nodes break
	KindLaggard   // one node is late to hear of the metadata
	KindLeader    // whoever leads most, or leads the quorum, dies, again and again
	KindMove      // replicas are reassigned, leaders elected
	KindBlackout  // several machines lose power at once
	kindCount
)

// String returns the kind's name on the command line.
func (k Kind) String() string {
	return [...]string{"kill", "midkill", "power", "midpower", "stop", "eio", "fsync", "full", "slowflush",
		"slowwrite", "stall", "clock", "cut", "admin", "delete", "init",
		"partition", "oneway", "clog", "reset", "laggard", "leader", "move", "blackout"}[k]
}

// Kinds returns all kinds.
func Kinds() []Kind {
	ks := make([]Kind, kindCount)
	for i := range ks {
		ks[i] = Kind(i)
	}
	return ks
}

// ParseKinds reads a comma-separated list of kinds.
func ParseKinds(s string) ([]Kind, error) {
	var ks []Kind
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		i := slices.IndexFunc(Kinds(), func(k Kind) bool { return k.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("no fault kind %q; there are %s", name, joinKinds(Kinds()))
		}
		ks = append(ks, Kind(i))
	}
	return ks, nil
}

func joinKinds(ks []Kind) string {
	names := make([]string, len(ks))
	for i, k := range ks {
		names[i] = k.String()
	}
	return strings.Join(names, ",")
}

// ofCluster reports whether the kind needs several brokers.
func (k Kind) ofCluster() bool { return k >= KindPartition }

// Options are what a seed makes of the world. All but Seed, Events, Until, Nodes
// and Without are drawn from the seed.
type Options struct {
	Seed uint64
	// Events is how many events the safety phase has; 0 is DefaultEvents.
	Events uint64
	// Until ends the run after that many events; 0 lets it end by itself.
	Until uint64
	// Nodes is how many brokers there are; 0 has the seed choose.
	Nodes int
	// Without are kinds left out whatever the seed says.
	Without []Kind

	on [kindCount]bool

	segmentBytes  int32
	indexInterval int32
	checkpoints   time.Duration // high watermarks, recovery points, log starts
	metadataBytes int64         // segments and snapshots of the metadata log
	producers     int
	consumers     int
	think         time.Duration // mean pause of a client
	latency       time.Duration // mean, one way
	spare         time.Duration // bound of a spare's delay
	flush         time.Duration // mean of an fsync
	write         time.Duration // mean delay of an append
	unrest        time.Duration // mean between two disturbances
	batchMax      int           // records in a batch
	padMax        int           // padding of a record, bytes

	nodes    int
	voters   int // the first so many nodes are controllers too
	replicas int // the greatest replication factor
	minISR   int // of topics with more than one replica
	session  time.Duration
	lag      time.Duration // replica.lag.time.max.ms
	election time.Duration // of the quorum
	downtime time.Duration // mean of a long one
	unclean  bool          // some topics may have unclean leaders
	riders   bool          // a state machine rides on every partition
}

// DefaultEvents is the length of the safety phase.
const DefaultEvents = 20_000

func (o *Options) draw(r *rand.Rand) {
	if o.Events == 0 {
		o.Events = DefaultEvents
	}
	few := 1 + r.IntN(100) // how many percent of the kinds this seed has
	for i := range o.on {
		o.on[i] = r.IntN(100) < max(few, 25)
	}
	for _, k := range o.Without {
		o.on[k] = false
	}
	ms := time.Millisecond
	o.segmentBytes = pick(r, []int32{300, 700, 2000, 8000, 64000, 1 << 20})
	o.indexInterval = pick(r, []int32{0, 0, 100, 1000, 4096})
	o.checkpoints = pick(r, []time.Duration{5 * ms, 20 * ms, 100 * ms, 1000 * ms})
	o.metadataBytes = pick(r, []int64{1500, 4000, 20_000, 1 << 20})
	o.producers = 2 + r.IntN(4)
	o.consumers = 1 + r.IntN(3)
	o.think = pick(r, []time.Duration{2 * ms, 6 * ms, 15 * ms})
	o.latency = pick(r, []time.Duration{ms / 10, ms, 5 * ms})
	o.spare = pick(r, []time.Duration{0, ms / 10, ms})
	o.flush = pick(r, []time.Duration{ms / 5, 2 * ms, 20 * ms})
	o.write = pick(r, []time.Duration{ms / 10, ms, 5 * ms})
	o.unrest = pick(r, []time.Duration{100 * ms, 300 * ms, 800 * ms})
	o.batchMax = 1 + r.IntN(6)
	o.padMax = pick(r, []int{20, 100, 400, 1500})
	// A batch must fit into a segment.
	o.segmentBytes = max(o.segmentBytes, int32(headerLen+o.batchMax*(o.padMax+32)))
	o.drawCluster(r)
}

// drawCluster draws the shape of the cluster.
func (o *Options) drawCluster(r *rand.Rand) {
	ms := time.Millisecond
	o.nodes = pick(r, []int{1, 1, 3, 3, 3, 4, 5})
	if o.Nodes > 0 {
		o.nodes = o.Nodes
	}
	o.voters = min(pick(r, []int{1, 3, 3, 3, 5}), (o.nodes+1)/2*2-1)
	o.replicas = min(pick(r, []int{1, 2, 3, 3, 3}), o.nodes)
	o.minISR = min(1+r.IntN(2), o.replicas)
	o.session = pick(r, []time.Duration{500 * ms, 1000 * ms, 3000 * ms})
	o.lag = pick(r, []time.Duration{200 * ms, 500 * ms, 2000 * ms})
	o.election = pick(r, []time.Duration{200 * ms, 500 * ms})
	o.downtime = pick(r, []time.Duration{300 * ms, 1000 * ms, 4000 * ms})
	o.unclean = r.IntN(4) == 0
	o.riders = r.IntN(2) == 0
	if o.nodes == 1 {
		o.voters, o.replicas, o.minISR = 1, 1, 1
		for k := range o.on {
			o.on[k] = o.on[k] && !Kind(k).ofCluster()
		}
		return
	}
	for _, k := range []Kind{KindEIO, KindFsync, KindFull} { // a later step
		o.on[k] = false
	}
}

// floor is the least that anything takes from one machine to another.
func (o *Options) floor() model.Instant { return model.Instant(o.latency / 10) }

// cluster makes a broker's timing that of the seed.
func (o *Options) cluster(b *config.Broker) {
	if o.nodes == 1 {
		return
	}
	b.Quorum.BrokerSessionTimeout = o.session
	b.Quorum.BrokerHeartbeatInterval = o.session / 5
	b.Quorum.ElectionTimeout, b.Quorum.HeartbeatInterval = o.election, o.election/5
	b.Replication.LagMax = o.lag
	b.Replication.FetchWaitMax = min(b.Replication.FetchWaitMax, o.lag/2)
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// String is the line that a run begins with.
func (o *Options) String() string {
	var on []Kind
	for i, b := range o.on {
		if b {
			on = append(on, Kind(i))
		}
	}
	return fmt.Sprintf("seed=%d kinds=%s segment=%d index=%d checkpoints=%v metadata=%d producers=%d consumers=%d think=%v latency=%v spare=%v flush=%v write=%v unrest=%v batch=%d pad=%d nodes=%d voters=%d replicas=%d minisr=%d session=%v lag=%v election=%v downtime=%v unclean=%v riders=%v",
		o.Seed, joinKinds(on), o.segmentBytes, o.indexInterval, o.checkpoints, o.metadataBytes, o.producers, o.consumers,
		o.think, o.latency, o.spare, o.flush, o.write, o.unrest, o.batchMax, o.padMax,
		o.nodes, o.voters, o.replicas, o.minISR, o.session, o.lag, o.election, o.downtime, o.unclean, o.riders)
}
