package host

import (
	"sync"
	"time"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
)

// task is something that the manager does from time to time, on a spare.
type task struct {
	m   *ReplicaManager
	run func()

	mu      sync.Mutex
	every   model.Instant
	stopped bool
	running bool
	idle    *sync.Cond
}

func newTask(m *ReplicaManager, every time.Duration, run func()) *task {
	t := &task{m: m, every: max(model.Instant(every), 1), run: run}
	t.idle = sync.NewCond(&t.mu)
	return t
}

// startTasks starts the checkpoints, retention, the watchdog and the removers. Each
// directory has its own, so that a disk that hangs keeps back no other's.
func (m *ReplicaManager) startTasks() {
	s := m.deps.Broker.Storage
	m.tasks = []*task{
		newTask(m, time.Second, m.watch),
		newTask(m, time.Second, m.lookAfterLost),
	}
	for _, d := range m.deps.Dirs.All() {
		m.tasks = append(m.tasks, newTask(m, time.Second, func() { m.removeRetired(d); m.unlinkDue(d) }))
	}
	m.tasks = append(m.tasks, newTask(m, time.Second, func() { m.keeper().tend(m.wall.held()) }))
	for _, d := range m.deps.Dirs.All() {
		m.tasks = append(m.tasks,
			newTask(m, s.HighWatermarkInterval, func() { m.checkpointHighWatermarks(d) }),
			newTask(m, min(s.RecoveryPointInterval, s.LogStartInterval), func() { m.checkpointLogs(d) }),
			newTask(m, s.RetentionCheckInterval, func() { m.retain(d) }))
	}
	if s.Cleaner.Enable {
		m.cleanerTask = newTask(m, m.cleaner.settings().Backoff, m.cleaner.look)
		m.tasks = append(m.tasks, m.cleanerTask)
	}
	for _, s := range m.scrubbers {
		m.tasks = append(m.tasks, newTask(m, min(scrubLook, s.cfg.Period/10), s.look))
	}
	for _, t := range m.tasks {
		t.arm()
	}
}

func (t *task) arm() {
	t.mu.Lock()
	every := t.every
	t.mu.Unlock()
	t.m.deps.RT.SetDeadline(t, t.m.deps.RT.Now().Mono+every)
}

// pace has the task done as often as that from now on.
func (t *task) pace(every time.Duration) {
	t.mu.Lock()
	t.every = max(model.Instant(every), 1)
	stopped := t.stopped
	t.mu.Unlock()
	if !stopped {
		t.arm()
	}
}

// TickAt is called on the timers' goroutine, which must not wait.
func (t *task) TickAt(model.Now) { t.m.deps.RT.Spare(t) }

// Deliver does the work and asks for the next time.
func (t *task) Deliver(model.Now) {
	t.mu.Lock()
	if t.stopped {
		t.mu.Unlock()
		return
	}
	t.running = true
	t.mu.Unlock()
	t.run()
	t.mu.Lock()
	t.running = false
	stopped := t.stopped
	t.idle.Broadcast()
	t.mu.Unlock()
	if !stopped {
		t.arm()
	}
}

// stop has the task do nothing any more, and waits if it is at work.
func (t *task) stop() {
	t.m.deps.RT.SetDeadline(t, model.Never)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	for t.running {
		t.idle.Wait()
	}
}

var (
	_ loop.Ticker   = (*task)(nil)
	_ loop.Delivery = (*task)(nil)
)
