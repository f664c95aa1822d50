package producer

import "github.com/tidemark/tidemark/internal/model"

// Memory is what a StateManager has remembered of its producers: for the state
// that is built anew of the same log to recall, or to be dropped.
type Memory struct {
	producers map[model.ProducerID]*Entry
}

// Memory gives away what is remembered, and forgets it as Reset does.
func (m *StateManager) Memory() Memory {
	k := Memory{m.producers}
	m.producers = nil
	m.txns.reset()
	return k
}

// Recall completes a state that was built anew from a snapshot, once the end of
// the log had been cut off. A snapshot holds one batch of each producer. Those
// before it, up to CachedBatchesMax in all, are still in the log if k knows them,
// and a retry of one is a duplicate as it was. What k says of the batches that were
// cut off is not used: they lie above all that the new state knows.
func (m *StateManager) Recall(k Memory) {
	for id, e := range m.producers { // order-free: each for itself
		if old := k.producers[id]; old != nil && old.Epoch == e.Epoch {
			e.recall(old.Batches())
		}
	}
}

// recall puts those of an older list of batches of the same epoch that come before
// the remembered ones in front of them, as many as there is room for.
func (e *Entry) recall(list []BatchMeta) {
	n := 0
	for e.count > 0 && n < len(list) && list[n].LastOffset < e.batches[0].LastOffset {
		n++
	}
	list = list[max(0, n-(CachedBatchesMax-e.count)):n]
	copy(e.batches[len(list):], e.batches[:e.count])
	copy(e.batches[:], list)
	e.count += len(list)
}
