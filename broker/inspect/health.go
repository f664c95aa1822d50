package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemark/tidemark/broker/admin"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// pulseMax is how long the node's spare goroutines may take to do nothing.
const pulseMax = time.Second

// Health says whether restarting the process is called for: it can't go on, its
// disks have failed, or it no longer gets anything done.
func (n *Node) Health() admin.Report {
	var r admin.Report
	if err := n.failure(); err != nil {
		r.Add(admin.Check{Name: "process", Detail: err.Error()})
	} else {
		r.Add(admin.Check{Name: "process", OK: true, Detail: "running " + n.version})
	}
	p := n.parts.Load()
	if p == nil {
		r.Add(admin.Check{Name: "directories", OK: true, Detail: "not opened yet"})
		return r
	}
	r.Add(p.directories())
	r.Add(p.pulse())
	if p.Voter != nil {
		r.Add(n.quorumPulse(p))
	}
	if p.Replicas != nil {
		r.Add(p.disks())
	}
	return r
}

func (p *Parts) directories() admin.Check {
	all := p.Dirs.All()
	for _, d := range all {
		if err := d.Failure(); err != nil {
			return admin.Check{Name: "directories", Detail: fmt.Sprintf("%d of %d in use; %s is offline: %v", p.Dirs.Online(), len(all), d.Path(), err)}
		}
	}
	return admin.Check{Name: "directories", OK: true, Detail: fmt.Sprintf("%d of %d in use", len(all), len(all))}
}

// beat is a delivery that only tells that it ran.
type beat struct{ done chan struct{} }

// Deliver implements loop.Delivery.
func (b *beat) Deliver(model.Now) { close(b.done) }

// pulse sees whether the node still gets to what is due: a loop's rest, a
// deadline, an image are all run by the spare goroutines.
func (p *Parts) pulse() admin.Check {
	b := &beat{done: make(chan struct{})}
	p.RT.Spare(b)
	patience := time.NewTimer(pulseMax)
	defer patience.Stop()
	select {
	case <-b.done:
		return admin.Check{Name: "loops", OK: true, Detail: "work is taken up at once"}
	case <-patience.C:
		return admin.Check{Name: "loops", Detail: fmt.Sprintf("nothing was taken up for %v: every spare goroutine waits", pulseMax)}
	}
}

// quorumPulse sees whether the metadata quorum's loop gets to what waits. A flush
// may hold it up for a while; one that takes longer than disks may is an alarm.
func (n *Node) quorumPulse(p *Parts) admin.Check {
	done := make(chan struct{})
	if n.touchedAt.CompareAndSwap(0, max(1, int64(p.RT.Now().Mono))) {
		p.Voter.Touch(func() {
			n.touchedAt.Store(0)
			close(done)
		})
		patience := time.NewTimer(pulseMax)
		defer patience.Stop()
		select {
		case <-done:
		case <-patience.C:
		}
	}
	at := n.touchedAt.Load()
	if at == 0 {
		return admin.Check{Name: "controller", OK: true, Detail: "the quorum's loop answers"}
	}
	silent := time.Duration(p.RT.Now().Mono - model.Instant(at))
	return admin.Check{Name: "controller", OK: silent < p.Stall, Detail: fmt.Sprintf("the quorum's loop has not answered for %v", silent.Round(time.Millisecond))}
}

func (p *Parts) disks() admin.Check {
	stalled := p.Replicas.Stalled()
	if len(stalled) == 0 {
		return admin.Check{Name: "disks", OK: true, Detail: "every write comes back"}
	}
	return admin.Check{Name: "disks", Detail: fmt.Sprintf("%d partitions wait for a disk that does not answer, %s first", len(stalled), stalled[0].TopicPartition())}
}

// Readiness says whether clients can be served here. It tells how far a start has
// come, too. Partitions that are damaged don't make a node unready: it will not
// get readier, and it serves the others.
func (n *Node) Readiness() admin.Report {
	var r admin.Report
	p := n.parts.Load()
	if p == nil {
		r.Add(admin.Check{Name: "directories", Detail: "not opened yet"})
		return r
	}
	img := p.Quorum.Image()
	r.Add(p.quorumKnown())
	if p.Replicas != nil {
		r.Add(p.loaded(img))
		r.Add(p.registered(img))
		r.Add(n.listeners())
	}
	return r
}

func (n *Node) listeners() admin.Check {
	switch {
	case n.stopping.Load():
		return admin.Check{Name: "listeners", Detail: "stopping"}
	case n.server.Load() == nil:
		return admin.Check{Name: "listeners", Detail: "clients are not let in yet"}
	}
	return admin.Check{Name: "listeners", OK: true, Detail: "clients are let in"}
}

func (p *Parts) quorumKnown() admin.Check {
	d := p.Quorum.Describe()
	if d.Leader == model.NoLeader {
		return admin.Check{Name: "quorum", Detail: "no active controller is known"}
	}
	return admin.Check{Name: "quorum", OK: true, Detail: fmt.Sprintf("controller %d, epoch %d", d.Leader, d.Epoch)}
}

// loaded compares what the cluster gives this broker with what is hosted.
func (p *Parts) loaded(img *metadata.Image) admin.Check {
	var assigned, here, offline int
	for t := range img.Topics() {
		for number, reg := range t.Partitions {
			if !reg.HasReplica(p.Self) {
				continue
			}
			assigned++
			h := p.Replicas.GetByID(model.TopicIDPartition{TopicID: t.ID, Partition: int32(number)})
			if h == nil {
				continue
			}
			here++
			if s := h.State(); s.Role == partition.Offline && s.Code == partition.CodeStorageError {
				offline++
			}
		}
	}
	c := admin.Check{Name: "partitions", OK: here == assigned, Detail: fmt.Sprintf("%d of %d loaded", here, assigned)}
	if offline > 0 {
		c.Detail += fmt.Sprintf(", %d of them offline because of damage or a failing disk", offline)
	}
	c.Detail += p.remnants()
	return c
}

// remnantsNamed bounds how many damaged partitions are named.
const remnantsNamed = 10

// remnants names the damaged partitions that are the last copy of what they hold, and
// says how far each is served.
func (p *Parts) remnants() string {
	var names []string
	more := 0
	for _, f := range p.Replicas.FailedReplicas() {
		switch {
		case !f.Serves:
		case len(names) == remnantsNamed:
			more++
		default:
			names = append(names, fmt.Sprintf("%s is damaged, has no better copy, and serves [%d, %d) to readers only", f.Partition, f.Start, f.End))
		}
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	if len(names) == 0 {
		return ""
	}
	return "; " + strings.Join(names, "; ")
}

// unheard is how long ago a controller was heard that leads a majority.
func (p *Parts) unheard() time.Duration {
	at := p.Replicas.LastHeard()
	if at == 0 {
		return 0
	}
	return time.Duration(p.RT.Now().Mono - at)
}

func (p *Parts) registered(img *metadata.Image) admin.Check {
	c := admin.Check{Name: "registration"}
	b, epoch := img.Broker(p.Self), p.Epoch()
	switch {
	case epoch == model.NoBrokerEpoch || b == nil || b.Epoch < epoch:
		c.Detail = "not registered yet"
	case b.Epoch > epoch:
		c.Detail = fmt.Sprintf("another process has registered as broker %d", p.Self)
	case b.Fenced:
		c.Detail = "fenced: the controller doesn't hear of this broker, or waits for it to catch up"
	case p.unheard() > p.Session:
		c.Detail = fmt.Sprintf("no controller has been heard for %v: it may have fenced this broker", p.unheard().Round(time.Millisecond))
	default:
		c.OK, c.Detail = true, fmt.Sprintf("broker epoch %d", epoch)
	}
	return c
}
