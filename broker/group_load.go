package broker

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/partition/host"
)

// groupLoad reads a partition's groups from its log, a slice at a time, on a
// spare: the partition's loop goes on meanwhile, and answers
// COORDINATOR_LOAD_IN_PROGRESS. When it is done it is the message that hands the
// machine over.
type groupLoad struct {
	r     *groupRider
	load  uint64
	epoch model.LeaderEpoch

	loader  *coordinator.Loader
	end     model.Offset // everything below was there when the loading began
	started model.Instant
	buf     []byte
	err     error
}

// Deliver implements loop.Delivery: the loading begins once the loop is free.
func (l *groupLoad) Deliver(model.Now) { l.r.g.b.rt.Spare((*groupSlice)(l)) }

// groupSlice is a groupLoad as what a spare runs.
type groupSlice groupLoad

// Deliver reads one slice.
func (s *groupSlice) Deliver(now model.Now) {
	l := (*groupLoad)(s)
	st := l.r.h.State()
	if st.View == nil || st.Role != partition.Leader || st.LeaderEpoch != l.epoch {
		return // the reign is over
	}
	if l.loader == nil {
		l.begin(now, st)
	}
	more, err := l.slice(st)
	if more && err == nil {
		l.r.g.b.rt.Spare(s)
		return
	}
	l.buf, l.err = nil, err
	l.tell(now)
	l.r.h.Command(l)
}

func (l *groupLoad) begin(now model.Now, st *host.State) {
	l.end, l.started = st.LogEnd, now.Mono
	l.loader = coordinator.NewLoader(group.New(&l.r.g.cfg, l.r.g.newRand()), st.LogStart)
}

// slice feeds the loader the next bytes, and says whether there are more.
func (l *groupLoad) slice(st *host.State) (more bool, err error) {
	from := max(l.loader.Next(), st.LogStart)
	if from >= l.end {
		return false, l.loader.Feed(nil, st.HighWatermark)
	}
	region, err := st.View.Read(from, l.end, int(l.r.g.b.config.Groups.LoadBufferBytes), true)
	if damage := (*log.CorruptionError)(nil); errors.As(err, &damage) {
		l.r.h.Verify(from)
	}
	if err != nil {
		return false, err
	}
	defer region.Release()
	n := region.Len()
	if n == 0 {
		return false, l.loader.Feed(nil, st.HighWatermark)
	}
	if cap(l.buf) < n {
		l.buf = make([]byte, n)
	}
	if _, err := region.ReadAt(l.buf[:n], 0); err != nil {
		return false, err
	}
	if err := l.loader.Feed(l.buf[:n], st.HighWatermark); err != nil {
		return false, err
	}
	if l.loader.Next() <= from {
		return false, fmt.Errorf("no whole batch at offset %d", from)
	}
	return l.loader.Next() < l.end, nil
}

// tell says how it went.
func (l *groupLoad) tell(now model.Now) {
	logger := l.r.g.b.logger.With(zap.Stringer("partition", l.r.h.TopicPartition()), zap.Int32("epoch", int32(l.epoch)))
	if l.err != nil {
		logger.Error("groups could not be loaded; it is tried again", zap.Error(l.err))
		return
	}
	m, sum := l.loader.Done()
	if lost := m.(*group.Machine).Stats().Unreadable; lost+sum.Damaged > 0 {
		logger.Error("some records of groups could not be read; their keys are lost, the rest is served",
			zap.Int64("records", lost), zap.Int64("batches", sum.Damaged))
	}
	if sum.Undecided > 0 {
		logger.Warn("offsets of transactions without an end do not count", zap.Int64("records", sum.Undecided))
	}
	if sum.Records > 0 {
		logger.Info("groups loaded", zap.Int64("records", sum.Records), zap.Int64("bytes", sum.Bytes),
			zap.Int64("ms", int64((l.r.g.b.rt.Now().Mono-l.started)/nanosPerMilli)))
	}
}

// Dropped implements host.Command: the partition is not here any more.
func (l *groupLoad) Dropped(*host.Turn) {}
