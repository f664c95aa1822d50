package partition

import (
	"errors"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
)

// A follower's state changes by its leader's answers alone. One answer is worked
// on at a time: its writes go one after another, and it is emitted when the last
// is done. Whoever fetches sends the next fetch only then, so that a fetch from
// an offset says that everything below is in the log; with flush before ack it
// says that everything below is durable. The
// log start that a fetch tells is always durable.

// errNewer: a leader that is fetched from in one epoch sent a batch of a later one.
var errNewer = errors.New("a batch of a later epoch than that of the fetch")

// position is what a fetch sent now would ask with.
func (p *Partition) position() Position {
	return Position{p.mark.LeaderEpoch, p.mark.LogEnd, p.plog.Epochs().LatestEpoch()}
}

// answers says whether an answer to asked is one to the present position.
func (p *Partition) answers(asked Position) bool {
	if p.mark.Role != Follower || p.follows != followTold {
		return false
	}
	now := p.position()
	if mutant.On("part-answer-by-offset") {
		now.LastEpoch = asked.LastEpoch
	}
	return asked == now
}

// fetched takes a leader's answer.
func (follower) fetched(p *Partition, now model.Now, f *Fetched, out *Output) {
	if !p.answers(f.Asked) || p.settling != nil {
		p.dropFetched(f, out)
		return
	}
	p.start.failed = false
	switch f.Kind {
	case AnswerDiverging:
		p.cutDiverging(f, out)
	case AnswerBounds:
		p.cutToBounds(f, out)
	default:
		p.admit(now, f, out)
	}
}

// dropFetched emits an answer of which nothing was used.
func (p *Partition) dropFetched(f *Fetched, out *Output) {
	f.Progress.Outcome = OutcomeStale
	p.emitFetched(f, out)
}

// admit appends what can be appended next, and ends the answer when nothing is
// left of it.
func (p *Partition) admit(now model.Now, f *Fetched, out *Output) {
	rest := f.Records.set[f.appended:]
	a := p.admissible(rest, f.Asked.LeaderEpoch, f.LogStart)
	if len(a.set) > 0 {
		p.applying = f
		f.appended += len(a.set)
		if a.newer { // nothing behind it is looked at
			f.Records.set, f.Records.damage = f.Records.set[:f.appended], nil
		}
		if a.refill {
			p.durable = min(p.durable, a.from) // also where the log starts above: what is below is not there yet
			p.write(out, Write{Kind: WriteRefill, Offset: a.from, Start: p.mark.LogEnd, Set: a.set})
			return
		}
		p.write(out, Write{Kind: WriteAppend, Set: a.set})
		return
	}
	switch {
	case a.why != nil:
		f.Progress.Why = a.why
		if a.gapTo != model.NoOffset {
			p.gaps.note(p.mark.LogEnd, a.gapTo, f.Asked.LeaderEpoch)
		}
		p.settleFetched(f, OutcomeCorrupt)
	case a.newer:
		// The leader has gone on to an epoch that we have not heard of, if the epoch
		// is what was written: no CRC covers it.
		f.Progress.Why = errNewer
		p.settleFetched(f, OutcomeStuck)
	case f.Records.damage != nil:
		f.Progress.Why = f.Records.damage
		p.settleFetched(f, OutcomeCorrupt)
	default:
		p.learn(f, out)
	}
}

// copied takes an append of fetched batches into account and goes on with the
// answer.
func (p *Partition) copied(now model.Now, f *Fetched, w Written, out *Output) {
	p.setEnds(w.LogStart, max(w.LogStart, min(p.mark.HighWatermark, w.LogEnd)), w.LogEnd, out)
	p.durable = min(p.durable, w.LogEnd)
	if w.Fault == FaultRefused {
		out.Events = append(out.Events, Event{Kind: EventAppendFailed, Mark: p.mark})
		p.settleFetched(f, OutcomeRefused)
		return
	}
	f.Progress.Bytes = f.appended
	if p.cfg.LogAppendTime {
		p.appendTime = max(p.appendTime, w.MaxTimestamp)
	}
	p.noteUnsynced(now, w.Rolled)
	p.watchProducers(now)
	if int64(p.mark.LogEnd.Sub(p.durable)) >= p.cfg.FlushMessages {
		p.flushWanted = FlushNow
	}
	p.admit(now, f, out)
}

// learn takes the leader's high watermark and log start. The high watermark
// never falls for an answer: what a former leader had committed is committed,
// also while a new one doesn't know it yet.
func (p *Partition) learn(f *Fetched, out *Output) {
	hw := max(p.mark.HighWatermark, min(f.HighWatermark, p.mark.LogEnd))
	p.setEnds(p.mark.LogStart, hw, p.mark.LogEnd, out)
	if start := min(f.LogStart, hw); start > p.mark.LogStart {
		p.applying = f
		p.write(out, Write{Kind: WriteLogStart, Offset: start})
		return
	}
	p.settleFetched(f, OutcomeApplied)
}

// followedStart completes the raise of the log start.
func (p *Partition) followedStart(f *Fetched, w Written, out *Output) {
	if w.Fault == FaultRefused {
		p.settleFetched(f, OutcomeRefused)
		return
	}
	from := p.mark.LogStart
	p.setEnds(w.LogStart, max(p.mark.HighWatermark, w.LogStart), p.mark.LogEnd, out)
	out.Events = append(out.Events, Event{Kind: EventLogStart, Mark: p.mark, From: from, To: w.LogStart})
	p.settleFetched(f, OutcomeApplied)
}

// cutDiverging truncates as the leader's answer and the own epochs demand: to
// where both logs are known to agree, never to the high watermark, which says
// nothing about what lies above it. Source: KIP-101, KIP-279.
//
// A cut at the leader's log start leaves only what nobody can compare: it goes too,
// and with it what it says of producers, which would pass for an answer to records
// that were never committed. One in the ISR has nothing else there than its leader,
// but the metadata that says so to a follower may be older than the answer.
func (p *Partition) cutDiverging(f *Fetched, out *Output) {
	cut := p.plog.Epochs().CutFor(f.Diverging, f.Asked.Offset, p.mark.LogEnd)
	if mutant.On("part-no-kip279") {
		cut.To = min(f.Diverging.Offset, p.mark.LogEnd)
	}
	if cut.To < 0 || f.Diverging.Epoch > f.Asked.LeaderEpoch {
		p.settleFetched(f, OutcomeStuck)
		return
	}
	p.applying = f
	if cut.To == f.LogStart && cut.To > p.mark.LogStart {
		p.write(out, Write{Kind: WriteRestart, Offset: cut.To})
		return
	}
	p.write(out, Write{Kind: WriteTruncate, Offset: cut.To})
}

// cutToBounds brings a log into the leader's bounds that had nothing in common
// with it: shorter if the leader's is shorter, empty if it starts behind our end.
func (p *Partition) cutToBounds(f *Fetched, out *Output) {
	switch end := p.mark.LogEnd; {
	case f.LeaderEnd < 0:
		p.settleFetched(f, OutcomeStuck)
	case f.LeaderEnd < end:
		p.applying = f
		p.write(out, Write{Kind: WriteTruncate, Offset: f.LeaderEnd})
	case f.LeaderStart > end:
		p.applying = f
		p.write(out, Write{Kind: WriteRestart, Offset: f.LeaderStart})
	default:
		// The leader's bounds have moved meanwhile; fetching tells.
		p.settleFetched(f, OutcomeApplied)
	}
}

// truncated takes a cut into account.
func (p *Partition) truncated(f *Fetched, w Written, out *Output) {
	from := p.mark.HighWatermark
	p.setEnds(w.LogStart, max(w.LogStart, min(from, w.LogEnd)), w.LogEnd, out)
	p.durable = min(p.durable, w.LogEnd)
	switch {
	case w.Fault == FaultRefused:
		p.settleFetched(f, OutcomeRefused)
		return
	case f.Kind == AnswerDiverging && p.position() == f.Asked:
		p.settleFetched(f, OutcomeStuck)
		return
	}
	f.Progress.Truncated = true
	if w.LogEnd < from {
		out.Events = append(out.Events, Event{Kind: EventBelowHW, Mark: p.mark, From: from, To: w.LogEnd})
	}
	out.Events = append(out.Events, Event{Kind: EventTruncated, Mark: p.mark, From: f.Asked.Offset, To: w.LogEnd})
	p.settleFetched(f, OutcomeApplied)
}

// settleFetched ends an answer. It is emitted by release, once what it brought
// is as durable as the settings want.
func (p *Partition) settleFetched(f *Fetched, o Outcome) {
	f.Progress.Outcome = o
	p.applying, p.settling = nil, f
	if p.awaitsDisk() {
		p.flushWanted = FlushNow
	}
}

// awaitsDisk says whether a fetch sent now would promise more than the disk
// holds.
func (p *Partition) awaitsDisk() bool {
	return p.cfg.FlushBeforeAck() && p.durable < p.mark.LogEnd && !mutant.On("part-fetch-before-fsync")
}

// truncatesToHW says whether following begins with a cut to the high watermark:
// never. It exists for the mutants, which are what Kafka did before KIP-101, and
// where it found no epochs.
func (p *Partition) truncatesToHW() bool {
	if p.mark.HighWatermark == p.mark.LogEnd {
		return false
	}
	return mutant.On("part-truncate-to-hw") ||
		mutant.On("part-truncate-to-hw-no-epochs") && p.plog.Epochs().Len() == 0
}

// emitFetched hands an answer back.
func (p *Partition) emitFetched(f *Fetched, out *Output) {
	g := &f.Progress
	g.Following = p.follows == followTold
	g.Position = Position{p.mark.LeaderEpoch, p.mark.LogEnd, model.NoEpoch}
	if p.plog != nil {
		g.Position.LastEpoch = p.plog.Epochs().LatestEpoch()
	}
	g.LogStart, g.HighWatermark = p.tellableStart(), p.mark.HighWatermark
	out.Fetched = append(out.Fetched, f)
}

// abandonFetched emits the answer that was worked on, as stale: the role or the
// leader has changed, and whoever fetches hears of that next. Until then it must
// not go on from here: what the answer brought may not be on the disk yet, and
// after a failed sync never will.
func (p *Partition) abandonFetched(out *Output) {
	for _, f := range []*Fetched{p.applying, p.settling} {
		if f != nil {
			f.Progress.Outcome = OutcomeStale
			p.emitFetched(f, out)
			f.Progress.Following = false
		}
	}
	p.applying, p.settling = nil, nil
}

// followState says what whoever fetches for this replica has been told.
type followState uint8

const (
	followNobody  followState = iota // told that nobody is followed, or nothing
	followPending                    // a leader is known; the telling waits
	followTold                       // told whom to follow
)

// follow begins or ends to follow the leader of the last registration.
func (p *Partition) follow(out *Output) {
	if p.follows == followTold {
		out.Follow = &Follow{Leader: model.NoLeader}
	}
	p.follows = followNobody
	if p.mark.Role == Follower && p.leader != model.NoLeader {
		p.follows, p.start.failed = followPending, false
		if p.awaitsDisk() {
			p.flushWanted = FlushNow
		}
	}
}

// release tells what waited for the disk: the end of an answer, and the
// beginning of following. The first fetch of an incarnation is a promise as much
// as every other.
func (p *Partition) release(out *Output) {
	if p.mark.Role != Follower || p.writing != WriteNone || p.awaitsDisk() || p.awaitsStart() {
		return
	}
	if f := p.settling; f != nil {
		p.settling = nil
		p.emitFetched(f, out)
	}
	if p.follows == followPending {
		if p.truncatesToHW() {
			p.write(out, Write{Kind: WriteTruncate, Offset: p.mark.HighWatermark})
			return
		}
		p.follows = followTold
		out.Follow = &Follow{
			Leader: p.leader, Position: p.position(), LogStart: p.tellableStart(), HighWatermark: p.mark.HighWatermark,
		}
	}
}
