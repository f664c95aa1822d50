package log_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
)

// epochLife is a log in the hands of TestLogWithBatchesHasEpochs.
type epochLife struct {
	*rig
	epoch model.LeaderEpoch
}

// epochSteps are all that happens to a log and its epochs in a life of a replica.
var epochSteps = []struct {
	name string
	do   func(e *epochLife) error
}{
	{"write", func(e *epochLife) error {
		e.append(logtest.Batches(e.l.LogEnd(), 2, e.epoch))
		return nil
	}},
	{"lead", func(e *epochLife) error {
		e.epoch++
		return e.l.AssignEpoch(e.epoch, e.l.LogEnd())
	}},
	{"cut the last", func(e *epochLife) error { return e.cut(max(e.l.LogStart(), e.l.LogEnd()-1)) }},
	{"cut at the end", func(e *epochLife) error { return e.cut(e.l.LogEnd()) }},
	{"delete the first", func(e *epochLife) error { return e.l.IncrementLogStart(min(e.l.LogStart()+1, e.l.LogEnd())) }},
	{"delete all", func(e *epochLife) error { return e.l.IncrementLogStart(e.l.LogEnd()) }},
	{"begin anew", func(e *epochLife) error {
		_, err := e.l.TruncateFullyAndStartAt(e.l.LogEnd() + 1)
		return err
	}},
	{"stop in order", func(e *epochLife) error {
		start, end := e.l.LogStart(), e.l.LogEnd()
		if err := e.l.Close(true); err != nil {
			return err
		}
		return e.again(log.StopClean, start, end)
	}},
	{"kill", func(e *epochLife) error {
		start, rp := e.l.LogStart(), e.l.RecoveryPoint()
		e.kill()
		return e.again(log.StopProcess, start, rp)
	}},
	{"kill, and lose the epoch file", func(e *epochLife) error {
		start, rp := e.l.LogStart(), e.l.RecoveryPoint()
		e.kill()
		_ = e.mem.Remove(testDir + "/leader-epoch-checkpoint") // there may be none
		return e.again(log.StopPower, start, rp)
	}},
}

func (e *epochLife) cut(to model.Offset) error {
	_, err := e.l.Truncate(to)
	return err
}

func (e *epochLife) again(stop log.Stop, start, rp model.Offset) error {
	e.o.LogStart = start
	_, err := e.open(stop, rp)
	return err
}

// TestLogWithBatchesHasEpochs tries every life of up to four steps: a log that
// holds anything between its bounds knows the epoch of its first record and of its
// last. So a follower with records always has an epoch to ask with, and a cut to
// the high watermark for want of one (part-truncate-to-hw-no-epochs) never comes
// to pass; partition: TestMutantTruncateToHWWithoutEpochs shows what would be lost
// if it did.
func TestLogWithBatchesHasEpochs(t *testing.T) {
	const length = 4
	lives := 1
	for range length {
		lives *= len(epochSteps)
	}
	for life := range lives {
		e := &epochLife{rig: newRig(t)}
		e.start(log.StopPower, 0)
		var told []string
		for n := life; len(told) < length; n /= len(epochSteps) {
			step := epochSteps[n%len(epochSteps)]
			told = append(told, step.name)
			err := step.do(e)
			if err == nil {
				err = e.knowsEpochs()
			}
			if err != nil {
				t.Fatalf("%s: %v", strings.Join(told, ", "), err)
			}
		}
	}
}

func (e *epochLife) knowsEpochs() error {
	start, end, epochs := e.l.LogStart(), e.l.LogEnd(), e.l.Epochs()
	if start == end {
		return nil
	}
	if _, ok := epochs.EpochFor(start); !ok {
		return fmt.Errorf("log [%d, %d) has epochs %v, none for its first record", start, end, epochs.Entries())
	}
	if got, ok := epochs.EpochFor(end - 1); !ok || got > e.epoch {
		return fmt.Errorf("log [%d, %d) has epochs %v, wrong for its last record", start, end, epochs.Entries())
	}
	return nil
}
