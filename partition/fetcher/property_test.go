package fetcher

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// TestEverythingArrives has a Fetcher fetch random partitions from a leader with
// sessions of its own, through lost answers, forgotten sessions, errors of single
// partitions, epochs that change, logs that begin later or got shorter, and slow
// appends. After each request the leader's session holds exactly the partitions
// that are to be fetched, each as it is; each position is delivered for at most
// once at a time; and once the trouble ends every partition gets to the leader's
// end, and then nothing but empty fetches is sent.
func TestEverythingArrives(t *testing.T) {
	for seed := range uint64(300) {
		w := &fetchWorld{seed: seed, rng: rand.New(rand.NewPCG(seed, 3)), rig: newRig(t), sessions: map[int32]*leaderSession{}}
		for n := range int32(1 + w.rng.IntN(12)) {
			w.parts = append(w.parts, &fetchPart{n: n, epoch: 1, pos: partition.Position{LeaderEpoch: 1, LastEpoch: -1}})
			w.follow(w.parts[n])
		}
		for range 400 {
			w.trouble()
			w.work(true)
		}
		w.calm()
	}
}

// fetchPart is one partition: the leader's log, in numbers, and the follower's.
type fetchPart struct {
	n     int32
	epoch model.LeaderEpoch // the leader's
	start model.Offset      // the leader's
	end   model.Offset      // the leader's

	pos       partition.Position // the follower's
	followed  bool
	delivered bool
}

// leaderSession is what a leader remembers of a fetcher.
type leaderSession struct {
	epoch int32
	parts map[int32]kmsg.FetchRequestTopicPartition
}

type fetchWorld struct {
	*rig
	seed     uint64
	rng      *rand.Rand
	parts    []*fetchPart
	sessions map[int32]*leaderSession
	ids      int32
}

func (w *fetchWorld) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
}

func (w *fetchWorld) follow(p *fetchPart) {
	p.followed, p.delivered = true, false
	delete(w.deliveries, p.n)
	p.pos.LeaderEpoch = p.epoch
	w.add(p.n, p.pos.LeaderEpoch, p.pos.Offset, p.pos.LastEpoch)
}

// trouble changes the world.
func (w *fetchWorld) trouble() {
	p := w.parts[w.rng.IntN(len(w.parts))]
	switch w.rng.IntN(12) {
	case 0, 1, 2:
		p.end += model.Offset(w.rng.IntN(5))
	case 3:
		p.start = min(p.end, p.start+model.Offset(w.rng.IntN(5)))
	case 4:
		p.end = max(p.start, p.end-model.Offset(w.rng.IntN(3)))
	case 5: // a new epoch; the follower hears of it before or after
		p.epoch++
		if w.rng.IntN(2) == 0 {
			w.follow(p)
		}
	case 6:
		w.follow(p)
	case 7:
		p.followed = false
		delete(w.deliveries, p.n)
		w.remove(p.n)
	case 8:
		clear(w.sessions)
	}
}

// work does one thing that moves the fetching on.
func (w *fetchWorld) work(faults bool) {
	w.after(model.Instant(w.rng.Int64N(int64(40 * ms))))
	if len(w.deliveries) > 0 && w.rng.IntN(2) == 0 {
		for n := int32(0); n < int32(len(w.parts)); n++ {
			if d, ok := w.deliveries[n]; ok {
				w.apply(w.parts[n], d, faults)
				break
			}
		}
	}
	switch req := w.req.(type) {
	case *kmsg.FetchRequest:
		if w.rng.IntN(3) > 0 {
			w.serveFetch(req, faults)
		}
	case *kmsg.ListOffsetsRequest:
		if w.rng.IntN(3) > 0 {
			w.serveBounds(req)
		}
	}
}

// apply is what a partition does with a delivery.
func (w *fetchWorld) apply(p *fetchPart, d Delivery, faults bool) {
	if !p.followed {
		w.fatal("partition %d was handed an answer and is not followed", p.n)
	}
	o := partition.OutcomeApplied
	switch {
	case d.Asked != p.pos:
		w.fatal("partition %d at %+v was handed an answer to %+v", p.n, p.pos, d.Asked)
	case faults && w.rng.IntN(5) == 0:
		o = partition.Outcome(2 + w.rng.IntN(4))
	case d.Kind == partition.AnswerBounds && d.LeaderEnd < p.pos.Offset:
		p.pos.Offset = d.LeaderEnd
	case d.Kind == partition.AnswerBounds:
		p.pos.Offset = max(p.pos.Offset, d.LeaderStart)
	default:
		p.pos.Offset += model.Offset(len(d.Records))
	}
	w.done(p.n, o, p.pos.Offset, p.pos.LastEpoch)
}

// session finds or makes the leader's session for a request; nil after an error.
func (w *fetchWorld) session(req *kmsg.FetchRequest) *leaderSession {
	if req.SessionEpoch == 0 {
		delete(w.sessions, req.SessionID)
		w.ids++
		s := &leaderSession{epoch: 1, parts: map[int32]kmsg.FetchRequestTopicPartition{}}
		w.sessions[w.ids] = s
		req.SessionID = w.ids
		return s
	}
	s := w.sessions[req.SessionID]
	switch {
	case s == nil:
		w.rig.fail(70)
		return nil
	case s.epoch != req.SessionEpoch:
		w.rig.fail(71)
		return nil
	}
	s.epoch++
	return s
}

func (w *fetchWorld) serveFetch(req *kmsg.FetchRequest, faults bool) {
	if faults && w.rng.IntN(10) == 0 {
		w.reply(nil, errors.New("reset"))
		return
	}
	s := w.session(req)
	if s == nil {
		return
	}
	for _, t := range req.Topics {
		for _, rp := range t.Partitions {
			s.parts[rp.Partition] = rp
		}
	}
	for _, t := range req.ForgottenTopics {
		for _, n := range t.Partitions {
			if _, ok := s.parts[n]; !ok {
				w.fatal("forgets partition %d, which the session doesn't have", n)
			}
			delete(s.parts, n)
		}
	}
	w.compare(s)
	var say []say
	for n := range int32(len(w.parts)) {
		if rp, ok := s.parts[n]; ok {
			say = append(say, w.servePart(w.parts[n], &rp, faults))
		}
	}
	if faults && w.rng.IntN(10) == 0 {
		w.reply(nil, errors.New("the answer is lost"))
		return
	}
	w.answer(req.SessionID, say...)
}

// compare looks whether the session holds what the Fetcher had to fetch when it
// sent the request. What has changed since is seen by fresh and stale.
func (w *fetchWorld) compare(s *leaderSession) {
	for id, p := range w.f.parts {
		rp, ok := s.parts[id.Partition]
		switch {
		case !p.sent && p.fresh: // added since
		case p.sent != ok:
			w.fatal("partition %d: in the session %v, sent %v", id.Partition, ok, p.sent)
		case ok && (rp.FetchOffset != int64(p.asked.pos.Offset) || rp.CurrentLeaderEpoch != int32(p.asked.pos.LeaderEpoch)):
			w.fatal("partition %d: the session has %d/%d, asked was %+v", id.Partition, rp.FetchOffset, rp.CurrentLeaderEpoch, p.asked)
		}
	}
}

func (w *fetchWorld) servePart(p *fetchPart, rp *kmsg.FetchRequestTopicPartition, faults bool) say {
	out := say{n: p.n, hw: p.end, start: p.start}
	from := model.Offset(rp.FetchOffset)
	switch epoch := model.LeaderEpoch(rp.CurrentLeaderEpoch); {
	case epoch < p.epoch:
		out.code = 74
	case epoch > p.epoch:
		out.code = 75
	case faults && w.rng.IntN(12) == 0:
		out.code = []int16{56, 6, 3, -1}[w.rng.IntN(4)]
	case from < p.start, from > p.end:
		out.code = 1
	default:
		out.records = string(make([]byte, min(p.end-from, 3)))
	}
	return out
}

func (w *fetchWorld) serveBounds(req *kmsg.ListOffsetsRequest) {
	var parts [][3]int64
	for _, t := range req.Topics {
		for _, rp := range t.Partitions {
			p := w.parts[rp.Partition]
			at := p.end
			if rp.Timestamp == earliestOffset {
				at = p.start
			}
			code := int64(0)
			if model.LeaderEpoch(rp.CurrentLeaderEpoch) != p.epoch {
				code = 75
			}
			parts = append(parts, [3]int64{int64(p.n), code, int64(at)})
		}
	}
	w.bounds(parts...)
}

// calm ends the trouble and waits for everything to arrive.
func (w *fetchWorld) calm() {
	for _, p := range w.parts {
		if !p.followed || p.pos.LeaderEpoch != p.epoch {
			w.follow(p)
		}
	}
	for i := 0; ; i++ {
		behind := -1
		for _, p := range w.parts {
			if p.pos.Offset != p.end {
				behind = int(p.n)
			}
		}
		if behind < 0 {
			break
		}
		if i > 5000 {
			p := w.parts[behind]
			state, _ := w.f.StateOf(id(p.n))
			w.fatal("partition %d is %s at %d and stays there; leader [%d, %d)", p.n, state, p.pos.Offset, p.start, p.end)
		}
		w.work(false)
	}
	for range 400 {
		w.work(false)
	}
	if req, ok := w.req.(*kmsg.FetchRequest); ok && len(req.Topics)+len(req.ForgottenTopics) > 0 && req.SessionEpoch > 0 {
		w.fatal("everything is there, and it asks %q", asked(req))
	}
}
