package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
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
	kindCount
)

// String returns the kind's name on the command line.
func (k Kind) String() string {
	return [...]string{"kill", "midkill", "power", "midpower", "stop", "eio", "fsync", "full", "slowflush",
		"slowwrite", "stall", "clock", "cut", "admin", "delete", "init"}[k]
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

// Options are what a seed makes of the world. All but Seed, Events, Until and
// Without are drawn from the seed.
type Options struct {
	Seed uint64
	// Events is how many events the safety phase has; 0 is DefaultEvents.
	Events uint64
	// Until ends the run after that many events; 0 lets it end by itself.
	Until uint64
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
	return fmt.Sprintf("seed=%d kinds=%s segment=%d index=%d checkpoints=%v metadata=%d producers=%d consumers=%d think=%v latency=%v spare=%v flush=%v write=%v unrest=%v batch=%d pad=%d",
		o.Seed, joinKinds(on), o.segmentBytes, o.indexInterval, o.checkpoints, o.metadataBytes, o.producers, o.consumers,
		o.think, o.latency, o.spare, o.flush, o.write, o.unrest, o.batchMax, o.padMax)
}
