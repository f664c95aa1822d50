package log

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tidemark/tidemark/internal/model"
)

// Mend is the storing of what was made anew beside sealed segments, because their
// files were wrong or missing, of digests that were missing, and of epochs that were
// mended (MendEpochs). It is started and
// finished by the owner of the log, and run by anybody. Only one exists at a time.
// A Drop or Swap that is started meanwhile is run after it.
type Mend struct {
	parts  []mended
	epochs *mendedEpochs // nil if the file is right

	mu   sync.Mutex
	over bool
	err  error
}

type mended struct {
	s    *segment
	x    *segmentIndexes
	next model.Offset
}

// mendMax is how many segments one Mend is for: each costs a few syncs.
const mendMax = 64

// StartMend begins to store what there is to be stored; nil if that is nothing, or
// another one is under way.
func (l *Log) StartMend() *Mend {
	if l.usable() != nil || l.mend != nil {
		return nil
	}
	m := &Mend{epochs: l.startMendEpochs()}
	for i, s := range l.segments[:len(l.segments)-1] {
		x := s.indexes.Load()
		if x == nil || x.unsure || len(m.parts) == mendMax || !s.repair.Swap(false) {
			continue
		}
		m.parts = append(m.parts, mended{s, x, l.segments[i+1].base})
	}
	if len(m.parts) == 0 && m.epochs == nil {
		return nil
	}
	l.mend = m
	return m
}

// Run waits for the disk. A second call returns what the first one did.
func (m *Mend) Run() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return m.err
	}
	m.over = true
	m.err = m.epochs.store()
	for _, p := range m.parts {
		if p.s.file.stale(p.s.size) != nil {
			continue // it is no part of the log any more
		}
		p.s.storing.Store(true)
		se, err := p.s.storeBelow(p.x, p.s.sealFor(p.next))
		p.s.storing.Store(false)
		if err != nil {
			p.s.repair.Store(true)
			m.err = errors.Join(m.err, fmt.Errorf("store indexes of segment %d: %w", p.s.base, err))
			continue
		}
		p.s.resealed.Store(se)
	}
	return m.err
}

// cancel has Run do nothing if it has not begun, and waits for it if it has.
func (m *Mend) cancel() {
	m.mu.Lock()
	m.over = true
	m.mu.Unlock()
}

// FinishMend ends it after Run. That Run failed harms nothing: what could not be
// stored is in memory, and tried again.
func (l *Log) FinishMend(m *Mend) {
	if l.mend == m {
		l.mend = nil
	}
	l.finishMendEpochs(m.epochs)
	for _, p := range m.parts {
		l.flush.noteSide(p.s.sideFiles()...)
	}
}
