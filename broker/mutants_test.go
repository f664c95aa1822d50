//go:build mutants

package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/mutant"
)

// TestMutantDivergingDropped: whoever has records that the leader's log does not hold
// is told where it left that log, and gets none of the leader's.
func TestMutantDivergingDropped(t *testing.T) {
	const name = "shell-diverging-dropped"
	dir := t.TempDir()
	var epochs []int32
	for range 2 {
		b := startBroker(t, dir)
		a := &api{t: t, b: b, addr: b.Addr()}
		if len(epochs) == 0 {
			a.topic("epochs", 1)
		}
		c := a.dial()
		epochs = append(epochs, c.metadata(9, false, "epochs").Topics[0].Partitions[0].LeaderEpoch)
		c.produce("epochs", 0, plainBatch(10, 1))
		if len(epochs) == 1 {
			stopBroker(t, b)
			continue
		}
		defer stopBroker(t, b)
		dropped := func() bool {
			f := fetchOf("epochs", 0, 15, 1<<20)
			f.Topics[0].Partitions[0].LastFetchedEpoch = epochs[0]
			p := c.call(f, 12).(*kmsg.FetchResponse).Topics[0].Partitions[0]
			return p.ErrorCode == 0 && (p.DivergingEpoch.Epoch != epochs[0] || p.DivergingEpoch.EndOffset != 10 || len(p.RecordBatches) > 0)
		}
		if dropped() {
			t.Errorf("%s: the unmutated code shows the fault", name)
		}
		restore := mutant.Set(name)
		if !dropped() {
			t.Errorf("%s survives", name)
		}
		restore()
	}
}
