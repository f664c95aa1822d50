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
	// Skip are the acts of the nemesis, counted from 1, that don't take place.
	Skip []Span

	only string   // the title of the one play that the world has; tests set it
	bill []script // the plays that it has

	on    [kindCount]bool
	drawn []Kind // those on that the nemesis draws from

	segmentBytes  int32
	indexInterval int32
	checkpoints   time.Duration // high watermarks, recovery points, log starts
	metadataBytes int64         // segments and snapshots of the metadata log
	producers     int
	consumers     int
	members       int           // of consumer groups
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

	topics    []string      // those that there are
	alone     bool          // each topic has one partition
	focus     bool          // the nemesis keeps to one partition's replicas
	reflex    int           // how many percent of the metadata's steps it answers
	patience  time.Duration // how long producers wait for an answer
	fetchMax  int32         // bytes of one partition in a follower's fetch
	rebalance time.Duration // between looks for leaders that are not the preferred ones
	brief     time.Duration // mean of a short downtime
	plain     bool          // most producers don't wait for all
	scrub     time.Duration // tidemark.scrub.period.ms; 0: nothing is scrubbed
}

// allTopics are the topics of a world that has them all: see isFlush,
// isAppendTime, isChurn.
var allTopics = []string{"f0", "d0", "t0", "c0", "x0", "x1"}

// DefaultEvents is the length of the safety phase.
const DefaultEvents = 20_000

func (o *Options) draw(r, plays *rand.Rand) {
	if o.Events == 0 {
		o.Events = DefaultEvents
	}
	few := 1 + r.IntN(100) // how many percent of the kinds this seed has
	for i := range o.on[:KindRot] {
		o.on[i] = r.IntN(100) < max(few, 25)
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
	o.unrest = pick(r, []time.Duration{100 * ms, 300 * ms, 1000 * ms})
	o.batchMax = 1 + r.IntN(6)
	o.padMax = pick(r, []int{20, 100, 400, 1500})
	// A batch must fit into a segment.
	o.segmentBytes = max(o.segmentBytes, int32(headerLen+o.batchMax*(o.padMax+32)))
	o.drawCluster(r)
	o.drawPlays(plays)
	for _, k := range o.Without {
		o.on[k] = false
	}
	for i, on := range o.on {
		if k := Kind(i); on && k.drawn() {
			o.drawn = append(o.drawn, k)
		}
	}
}

// drawRot draws whether disks rot. Most seeds are the worlds that they would be
// without this.
func (o *Options) drawRot(r *rand.Rand) {
	o.on[KindRot] = r.IntN(4) == 0 && !slices.Contains(o.Without, KindRot)
}

// drawScrub draws whether sealed segments are verified, which is of use where disks
// rot, and must do no harm elsewhere. Where plays are staged it is not: they wait for
// worlds to come to rest.
func (o *Options) drawScrub(r *rand.Rand) {
	if len(o.bill) > 0 {
		return
	}
	if often := r.IntN(3) > 0; often == o.on[KindRot] {
		o.scrub = pick(r, []time.Duration{200 * time.Millisecond, time.Second, 4 * time.Second})
	}
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
	o.topics, o.patience, o.brief = allTopics, 30_000*ms, 30*ms
	if o.nodes == 1 {
		o.voters, o.replicas, o.minISR = 1, 1, 1
		for k := range o.on {
			o.on[k] = o.on[k] && !Kind(k).ofCluster()
		}
		return
	}
	o.reflex = pick(r, []int{5, 20, 40, 70})
	o.focus = r.IntN(3) > 0
	o.patience = pick(r, []time.Duration{100 * ms, 1000 * ms, 30_000 * ms})
	o.fetchMax = pick(r, []int32{1, 1000, 1 << 20})
	o.rebalance = pick(r, []time.Duration{1000 * ms, 5000 * ms, 300_000 * ms})
	o.brief = pick(r, []time.Duration{10 * ms, 30 * ms, 200 * ms})
	o.plain = r.IntN(3) == 0
	if r.IntN(3) > 0 { // what is spread over many partitions meets none of them often
		o.alone = true
		o.topics = pick(r, [][]string{{"d0"}, {"d0"}, {"f0"}, {"d0", "f0"}, {"d0", "c0"}, {"d0", "x0"}, {"t0"}})
	}
	if r.IntN(2) == 0 { // the hard orders of faults
		for _, k := range []Kind{KindKill, KindPower, KindReflex, KindStory, KindAlter} {
			o.on[k] = o.on[k] || r.IntN(3) > 0
		}
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
	b.Replication.FetchMaxBytes = o.fetchMax
	b.Quorum.LeaderRebalanceInterval = o.rebalance
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
	return fmt.Sprintf("seed=%d kinds=%s segment=%d index=%d checkpoints=%v metadata=%d producers=%d consumers=%d members=%d think=%v latency=%v spare=%v flush=%v write=%v unrest=%v batch=%d pad=%d nodes=%d voters=%d replicas=%d minisr=%d session=%v lag=%v election=%v downtime=%v unclean=%v riders=%v topics=%s alone=%v focus=%v reflex=%d patience=%v fetch=%d rebalance=%v brief=%v plain=%v scrub=%v",
		o.Seed, joinKinds(on), o.segmentBytes, o.indexInterval, o.checkpoints, o.metadataBytes, o.producers, o.consumers, o.members,
		o.think, o.latency, o.spare, o.flush, o.write, o.unrest, o.batchMax, o.padMax,
		o.nodes, o.voters, o.replicas, o.minISR, o.session, o.lag, o.election, o.downtime, o.unclean, o.riders,
		strings.Join(o.topics, ","), o.alone, o.focus, o.reflex, o.patience, o.fetchMax, o.rebalance, o.brief, o.plain, o.scrub)
}
