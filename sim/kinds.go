package sim

import (
	"fmt"
	"slices"
	"strings"
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
	KindLate      // connections between nodes are given up, and what was sent arrives much later
	KindAlter     // changes of ISRs, and the answers to them, are under way for long
	KindReflex    // something happens at once to those whom the metadata has just named
	KindStory     // several faults in an order that is known to be hard, around one partition
	KindWipe      // a replica's directory is gone when the process starts
	KindMinISR    // min.insync.replicas changes
	KindUnclean   // someone chooses that a partition may lose records
	KindRot       // what lies on a disk changes by itself; also with one broker
	KindPlay      // a long order of faults, each step of which waits for the last one's effect
	kindCount
)

// String returns the kind's name on the command line.
func (k Kind) String() string {
	return [...]string{"kill", "midkill", "power", "midpower", "stop", "eio", "fsync", "full", "slowflush",
		"slowwrite", "stall", "clock", "cut", "admin", "delete", "init",
		"partition", "oneway", "clog", "reset", "laggard", "leader", "move", "blackout",
		"late", "alter", "reflex", "story", "wipe", "minisr", "unclean", "rot", "play"}[k]
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
func (k Kind) ofCluster() bool { return k >= KindPartition && k != KindRot }

// drawn reports whether faults of the kind are drawn from time to time; others
// come of themselves.
func (k Kind) drawn() bool {
	switch k {
	case KindFlush, KindWrite, KindAdmin, KindDelete, KindInit, KindMove, KindAlter, KindReflex, KindWipe, KindMinISR, KindUnclean, KindRot, KindPlay:
		return false
	}
	return true
}

// chosen reports whether the nemesis may choose whom a fault of the kind hits.
func (k Kind) chosen() bool {
	switch k {
	case KindPartition, KindLeader, KindBlackout, KindStory:
		return false
	}
	return true
}
