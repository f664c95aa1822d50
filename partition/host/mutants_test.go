//go:build mutants

package host

import (
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/partition"
)

// Each story finds no fault in the code as it is, and one in the mutant.

func TestMutantActsBeforeRegistration(t *testing.T) {
	kill(t, "host-acts-before-registration", func() bool {
		n, _ := leading(t, nil)
		n.kill()
		n.start()
		// The metadata of its former life comes again, before the controller has
		// given this one an epoch.
		c := metadata.NewPartitionChange(topicID("t"), 0)
		c.Leader = 1
		n.apply(c)
		return n.m.Get("t", 0).State().Role == partition.Leader
	})
}

func TestMutantLostMadeAnew(t *testing.T) {
	kill(t, "host-lost-made-anew", func() bool {
		n, h := leading(t, nil)
		n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 0)
		n.kill()
		if err := n.disk.RemoveAll("/data/t-0"); err != nil {
			t.Fatal(err)
		}
		n.start()
		return n.m.Get("t", 0).State().Role != partition.Offline // an empty member of the ISR
	})
}

func TestMutantFirstAppendEarly(t *testing.T) {
	kill(t, "host-first-append-early", func() bool {
		n, h := unestablished(t)
		n.send(h, 1, batchOf(3, -1, 0))
		n.flush["/data"].run()
		n.rt.idle()
		return !metadataAfterPowerLoss(n) // records of which nobody could tell whose they are
	})
}

func TestMutantStrayDeleted(t *testing.T) {
	kill(t, "host-stray-deleted", func() bool {
		n, h := leading(t, nil)
		n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 0)
		n.stop()
		n.commit(&metadata.RemoveTopic{ID: topicID("t")}) // which it did not see: its next image just lacks the topic
		n.start()
		n.stop()
		n.start()
		return len(dirNames(t, n, "-stray")) == 0 // the records are gone
	})
}

func kill(t *testing.T, name string, faulty func() bool) {
	t.Helper()
	if faulty() {
		t.Errorf("%s: the unmutated code shows the fault", name)
	}
	defer mutant.Set(name)()
	if !faulty() {
		t.Errorf("%s survives", name)
	}
}

func TestMutantScrubUnheard(t *testing.T) {
	kill(t, "host-scrub-unheard", func() bool {
		n, h := scrubbed(t)
		n.rot(secondSegment+".log", 65, 2)
		n.scrub()
		return h.State().Role == partition.Leader // of what is damaged
	})
}

func TestMutantRefillInTheSameEpoch(t *testing.T) {
	kill(t, "host-refill-in-the-same-epoch", func() bool {
		p := damagedFollower(t)
		c := metadata.NewPartitionChange(topicID("t"), 0)
		c.ISR = []model.BrokerID{1}
		p.apply(c)
		p.wait(3000)
		return p.hosted(2).State().Role == partition.Follower // what the old log asked for would count for it
	})
}
