package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// churn is groups whose members come and go.
type churn struct {
	c      *cluster
	h      *groupHistory
	topic  string
	stop   chan struct{}
	wg     sync.WaitGroup
	lives  [3]atomic.Int64 // by fate
	groups []string
}

// protocols are the ways in which the members of a group find their partitions.
func protocols() map[string][]kgo.Opt {
	return map[string][]kgo.Opt{
		"cooperative": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
		"consumer":    {kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())},
		"eager":       {kgo.Balancers(kgo.RangeBalancer())},
	}
}

// churns starts a group of each protocol; every slot holds one member after
// another, each fourth slot a static one.
func (c *cluster) churns(topic string, slots int, groups ...string) *churn {
	x := &churn{c: c, h: newGroupHistory(), topic: topic, stop: make(chan struct{}), groups: groups}
	for g, group := range groups {
		for slot := range slots {
			rng := rand.New(rand.NewPCG(uint64(g), uint64(slot)))
			x.wg.Go(func() { x.slot(group, slot, rng) })
		}
	}
	return x
}

func (x *churn) slot(group string, slot int, rng *rand.Rand) {
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(rng.Int64N(int64(high-low))) }
	opts := protocols()[group]
	if slot%4 == 3 {
		opts = append(opts, kgo.InstanceID(fmt.Sprintf("%s-%d", group, slot)))
	}
	for n := 0; ; n++ {
		select {
		case <-x.stop:
			return
		case <-time.After(between(0, 500*time.Millisecond)):
		}
		how := fate(rng.IntN(3))
		m := x.c.joinGroup(x.h, group, fmt.Sprintf("%d.%d", slot, n), x.topic, opts...)
		m.life(how, between(500*time.Millisecond, 5*time.Second), between(200*time.Millisecond, 5*time.Second), rng)
		x.lives[how].Add(1)
	}
}

// flows waits until each group has committed once more.
func (x *churn) flows() {
	x.c.t.Helper()
	for _, g := range x.groups {
		before := x.h.commits(g)
		eventually(x.c.t, 60*time.Second, "group "+g+" commits", func() bool { return x.h.commits(g) > before })
	}
}

// drain ends the churn, has a few members that stay bring each group to the end
// of the log, and returns what is committed.
func (x *churn) drain(parts []tp) map[groupPartition]int64 {
	t := x.c.t
	t.Helper()
	close(x.stop)
	x.wg.Wait()
	done := make(chan struct{})
	var last sync.WaitGroup
	for _, g := range x.groups {
		for i := range 2 {
			m := x.c.joinGroup(x.h, g, fmt.Sprintf("last.%d", i), x.topic, protocols()[g]...)
			last.Go(func() {
				m.run(done, rand.New(rand.NewPCG(uint64(i), 9)))
				m.close()
			})
		}
	}
	cl := x.c.client()
	defer cl.Close()
	ends := map[tp]int64{}
	for _, p := range parts {
		ends[p] = x.c.endOffset(cl, p)
	}
	adm := kadm.NewClient(cl)
	finals := map[groupPartition]int64{}
	behind := ""
	defer func() {
		if t.Failed() {
			t.Log(behind)
		}
	}()
	eventually(t, 90*time.Second, "every group is at the end of the log", func() bool {
		behind = ""
		for _, g := range x.groups {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			offsets, err := adm.FetchOffsets(ctx, g)
			cancel()
			if err != nil {
				behind = fmt.Sprintf("%s: %v", g, err)
				return false
			}
			for _, p := range parts {
				at := int64(none)
				if o, ok := offsets.Lookup(p.topic, p.n); ok {
					at = o.At
				}
				finals[groupPartition{g, p}] = at
				if at != ends[p] {
					behind += fmt.Sprintf("%s %v is at %d of %d\n", g, p, at, ends[p])
				}
			}
		}
		return behind == ""
	})
	close(done)
	last.Wait()
	return finals
}

// TestGroupTorture: members of groups of each protocol join, leave, crash and
// stand still, while one broker after the other is killed, and all of them at
// once: no record that is committed was left out, none came in another order or
// again after it was committed, and no committed offset is lost. The long form
// takes about five minutes.
func TestGroupTorture(t *testing.T) {
	t.Parallel()
	c := startCluster(t, clusterSpec{set: append(shortSessions(),
		// The offsets are compacted all the time.
		"offsets.topic.num.partitions=3", "log.roll.ms=3000", "log.cleaner.backoff.ms=500", "log.cleaner.min.cleanable.ratio=0.1",
		"group.initial.rebalance.delay.ms=100", "group.min.session.timeout.ms=1000",
		"group.consumer.min.session.timeout.ms=1000", "group.consumer.session.timeout.ms=3000",
		"group.consumer.min.heartbeat.interval.ms=100", "group.consumer.heartbeat.interval.ms=300")})
	parts := c.create("torture", 12, nil)
	for _, p := range parts {
		c.awaitISR(p, 3)
	}
	w := c.work(parts, workSpec{idempotent: 2, every: 25 * time.Millisecond})
	groups, slots := []string{"cooperative", "consumer"}, 10
	if long() {
		groups, slots = append(groups, "eager"), 20
	}
	x := c.churns("torture", slots, groups...)
	x.flows()
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	kills := rounds(4, 20)
	for i := range kills {
		if i == kills/2 {
			x.h.happened("all brokers are killed")
			for _, m := range c.members {
				_ = m.p.Signal(syscall.SIGKILL)
			}
			for _, m := range c.members {
				m.kill()
			}
			c.start()
			w.flowsEverywhere()
			x.flows()
		}
		m := c.members[i%len(c.members)]
		x.h.happened("broker %d is killed", m.id)
		m.kill()
		w.flowsEverywhere()
		x.flows()
		pause(time.Duration(rng.Int64N(int64(time.Duration(rounds(1, 8)) * time.Second))))
		x.h.happened("broker %d is started", m.id)
		m.start()
		for _, p := range parts {
			c.awaitISR(p, 3)
		}
	}
	w.quiet()
	for _, cl := range w.cls {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := cl.Flush(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
	finals := x.drain(parts)
	x.h.into(w.h)
	w.check()
	bad, twice, where := x.h.check(finals)
	if len(bad) > 0 {
		t.Errorf("anomalies of groups:\n%s", counted(bad))
	}
	for _, k := range where[:min(len(where), 3)] {
		t.Log(x.h.tale(k))
	}
	acked := 0
	for _, g := range groups {
		acked += x.h.commits(g)
	}
	t.Logf("%d members left, %d crashed, %d stood still; %d assignments, %d of %d commits acknowledged, %d records came again", x.lives[leaves].Load(), x.lives[crashes].Load(),
		x.lives[stands].Load(), len(x.h.spells), acked, len(x.h.promises), twice)
	c.compare(parts)
	holes := 0
	c.compareBy([]tp{{"__consumer_offsets", 0}, {"__consumer_offsets", 1}, {"__consumer_offsets", 2}}, func(copies []*replica) error {
		for _, r := range copies {
			holes += r.holes()
		}
		return compareNewest(copies)
	})
	if t.Logf("%d records of offsets and groups were compacted away", holes); holes == 0 {
		t.Error("nothing was compacted")
	}
}
