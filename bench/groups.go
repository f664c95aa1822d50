package bench

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The cells of groups. Payload bytes are those of the requests, more or less: what
// counts is CPU.

// groupName is a name that no other run has.
func groupName() string { return fmt.Sprintf("bench-%d-%d", os.Getpid(), time.Now().UnixNano()) }

// fewBytes is the size that a request of a group counts as.
const fewBytes = 100

func (e *env) count(requests int64) {
	e.result.Requests, e.result.Records, e.result.Bytes = requests, requests, requests*fewBytes
}

// beatEvery is the time between two heartbeats of a member in the cells that join.
const beatEvery = 100 * time.Millisecond

// settling waits until so many members are in one generation.
type settling struct {
	mu     sync.Mutex
	want   int
	in     map[int32]int // generation → members that have synced in it
	done   chan struct{}
	failed error
}

func newSettling(want int) *settling {
	return &settling{want: want, in: make(map[int32]int), done: make(chan struct{})}
}

func (s *settling) end(err error) {
	select {
	case <-s.done:
	default:
		s.failed = err
		close(s.done)
	}
}

func (s *settling) synced(generation int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.in[generation]++; s.in[generation] == s.want {
		s.end(nil)
	}
}

func (s *settling) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(err)
}

// joinCell has members come to a classic group that has one, ten milliseconds
// apart, and measures until all are in one generation.
func joinCell(members int) func(*env) error {
	return func(e *env) error {
		n := max(2, e.scaled(members))
		group := groupName()
		if err := awaitCoordinator(e.target.Addr, group); err != nil {
			return err
		}
		s := newSettling(n)
		all := make([]*groupMember, n)
		for i := range all {
			m, err := newGroupMember(e.target.Addr, group)
			if err != nil {
				return err
			}
			defer m.c.close()
			all[i] = m
		}
		if err := all[0].join(); err != nil {
			return err
		}
		var running sync.WaitGroup
		began := time.Now()
		err := e.measure(func() error {
			for i, m := range all {
				running.Go(func() {
					if err := m.stay(s, i == 0); err != nil {
						s.fail(err)
					}
				})
				time.Sleep(10 * time.Millisecond)
			}
			select {
			case <-s.done:
			case <-time.After(2 * time.Minute):
				s.fail(fmt.Errorf("%d members are not in one generation after two minutes", n))
			}
			return s.failed
		})
		e.lat.add(time.Since(began))
		running.Wait()
		var requests int64
		for _, m := range all {
			requests += m.requests
		}
		e.count(requests)
		return err
	}
}

// stay joins and beats until the group has settled.
func (m *groupMember) stay(s *settling, joined bool) error {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		if !joined {
			if err := m.join(); err != nil {
				return err
			}
			s.synced(m.generation)
		}
		for joined = true; joined; {
			select {
			case <-s.done:
				return nil
			case <-tick.C:
			}
			again, err := m.beat()
			if err != nil {
				return err
			}
			joined = !again
		}
	}
}

// groupsOfOne starts groups that have one member each.
func (e *env) groupsOfOne(n int) ([]*groupMember, error) {
	name := groupName()
	if err := awaitCoordinator(e.target.Addr, name); err != nil {
		return nil, err
	}
	all := make([]*groupMember, n)
	for i := range all {
		m, err := newGroupMember(e.target.Addr, fmt.Sprintf("%s-%d", name, i))
		if err != nil {
			return all[:i], err
		}
		all[i] = m
	}
	errs := make([]error, n)
	const atOnce = 50 // a broker may hold the first join of a group back for seconds
	var joining sync.WaitGroup
	for w := range atOnce {
		joining.Go(func() {
			for i := w; i < n; i += atOnce {
				errs[i] = all[i].join()
			}
		})
	}
	joining.Wait()
	for _, err := range errs {
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

func closeAll(all []*groupMember) {
	for _, m := range all {
		m.c.close()
	}
}

// beatCell has groups of one member send heartbeats, every member one a second,
// evenly over time.
func beatCell(groups int, span time.Duration) func(*env) error {
	return func(e *env) error {
		all, err := e.groupsOfOne(e.scaled(groups))
		defer closeAll(all)
		if err != nil {
			return err
		}
		frames := make([][]byte, len(all))
		for i, m := range all {
			frames[i] = m.c.encode(m.heartbeat())
		}
		steps := max(1, int(float64(span)*min(1, e.scale)/float64(10*time.Millisecond)))
		return e.rounds(all, steps, 10*time.Millisecond, max(1, len(all)/100), func(i int) []byte { return frames[i] },
			func(i int, b []byte) error {
				resp, err := decode(all[i].heartbeat(), b)
				if err != nil {
					return err
				}
				return kerr.ErrorForCode(resp.(*kmsg.HeartbeatResponse).ErrorCode)
			})
	}
}

// commitCell has groups of one member commit one offset each, all of them every
// five milliseconds.
func commitCell(groups, commits int) func(*env) error {
	return func(e *env) error {
		topic, err := e.topic(1)
		if err != nil {
			return err
		}
		all, err := e.groupsOfOne(groups)
		defer closeAll(all)
		if err != nil {
			return err
		}
		frames := make([][]byte, len(all))
		for i, m := range all {
			frames[i] = m.c.encode(m.commit(topic, 1_000_000, 0))
		}
		return e.rounds(all, max(1, e.scaled(commits)/groups), 5*time.Millisecond, groups, func(i int) []byte { return frames[i] },
			func(i int, b []byte) error { return checkCommit(all[i].commit(topic, 0, 0), b) })
	}
}

// rounds measures steps, one every so often or as soon as the last is answered:
// in each the next few members send a frame, and their answers are taken. The
// first answer of each is looked at, the others must be as long.
func (e *env) rounds(all []*groupMember, steps int, every time.Duration, few int, frame func(int) []byte, check func(int, []byte) error) error {
	want := make([]int, len(all))
	for i, m := range all {
		if err := m.c.write(frame(i)); err != nil {
			return err
		}
		b, err := m.c.read()
		if err != nil {
			return err
		}
		if err := check(i, b); err != nil {
			return err
		}
		want[i] = len(b)
	}
	next := 0
	err := e.measure(func() error {
		began := time.Now()
		for step := range steps {
			if wait := time.Duration(step)*every - time.Since(began); wait > 0 {
				time.Sleep(wait)
			}
			sent := time.Now()
			for k := range few {
				i := (next + k) % len(all)
				if err := all[i].c.write(frame(i)); err != nil {
					return err
				}
			}
			for k := range few {
				i := (next + k) % len(all)
				n, err := all[i].c.skip()
				if err != nil {
					return err
				}
				if n != want[i] {
					return fmt.Errorf("an answer of %d bytes, the first good one had %d", n, want[i])
				}
				e.lat.add(time.Since(sent))
			}
			next = (next + few) % len(all)
		}
		return nil
	})
	e.count(int64(steps * few))
	return err
}
