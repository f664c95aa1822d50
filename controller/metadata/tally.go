package metadata

import (
	"slices"

	"github.com/tidemark/tidemark/internal/model"
)

// tally counts what is asked often and would take a walk over all partitions.
// It follows from the partitions and is in no record and no hash.
type tally struct {
	owner *owner
	loads []load // brokers that have any, sorted
	// offline partitions have no leader; imbalanced ones are not led by their
	// first replica, for whatever reason; reassigning ones are on the move.
	offline, imbalanced, reassigning int
}

// load is what one broker does.
type load struct {
	broker     model.BrokerID
	leads, isr int
}

// Leads returns how many partitions b leads.
func (m *Image) Leads(b model.BrokerID) int { return m.tally.of(b).leads }

// InSync returns of how many ISRs b is a member.
func (m *Image) InSync(b model.BrokerID) int { return m.tally.of(b).isr }

// Offline returns how many partitions have no leader.
func (m *Image) Offline() int { return m.tally.offline }

// Imbalanced returns how many partitions are not led by their first replica.
func (m *Image) Imbalanced() int { return m.tally.imbalanced }

// Reassigning returns how many partitions have a reassignment under way.
func (m *Image) Reassigning() int { return m.tally.reassigning }

func (t *tally) find(b model.BrokerID) (int, bool) {
	return slices.BinarySearchFunc(t.loads, b, func(l load, b model.BrokerID) int { return int(l.broker) - int(b) })
}

func (t *tally) of(b model.BrokerID) load {
	if i, ok := t.find(b); ok {
		return t.loads[i]
	}
	return load{}
}

// count moves the tally from one registration of a partition to the next; nil
// is none.
func (e *Edit) count(old, now *PartitionRegistration) {
	t := &e.next.tally
	if t.owner != e.owner {
		t.owner, t.loads = e.owner, slices.Clone(t.loads)
	}
	t.add(old, -1)
	t.add(now, 1)
}

func (t *tally) add(p *PartitionRegistration, sign int) {
	if p == nil {
		return
	}
	if p.Leader == model.NoLeader {
		t.offline += sign
	} else {
		t.load(p.Leader, sign, 0)
	}
	if p.Leader != p.Replicas[0] {
		t.imbalanced += sign
	}
	if p.Reassigning() {
		t.reassigning += sign
	}
	for _, b := range p.ISR {
		t.load(b, 0, sign)
	}
}

func (t *tally) load(b model.BrokerID, leads, isr int) {
	i, ok := t.find(b)
	if !ok {
		t.loads = slices.Insert(t.loads, i, load{broker: b})
	}
	l := &t.loads[i]
	l.leads, l.isr = l.leads+leads, l.isr+isr
	if l.leads == 0 && l.isr == 0 {
		t.loads = slices.Delete(t.loads, i, i+1)
	}
}
