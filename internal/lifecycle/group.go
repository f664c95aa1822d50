package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Group is a set of named goroutines. Its zero value is ready. All methods may
// be called from any goroutine.
type Group struct {
	mu      sync.Mutex
	running map[string]int // name → how many run now
	total   int            // the sum of running
	idle    chan struct{}  // closed when total falls to 0; nil when nobody waits
}

// Go runs fn on a new goroutine under a name, such as "flusher /data/log".
// Several may share a name. A panic in fn is not recovered.
func (g *Group) Go(name string, fn func()) {
	g.mu.Lock()
	if g.running == nil {
		g.running = make(map[string]int)
	}
	g.running[name]++
	g.total++
	g.mu.Unlock()
	go func() {
		defer g.done(name)
		fn()
	}()
}

func (g *Group) done(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running[name]--
	if g.running[name] == 0 {
		delete(g.running, name)
	}
	g.total--
	if g.total == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Len returns how many goroutines run now.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.total
}

// Names returns what runs now, sorted; a name that several share is followed
// by their number, as in "connection x12".
func (g *Group) Names() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	names := make([]string, 0, len(g.running))
	for name, n := range g.running { // order-free: sorted below
		if n > 1 {
			name = fmt.Sprintf("%s x%d", name, n)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Counts returns how many goroutines run now under each name.
func (g *Group) Counts() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.running)
}

// Done returns a channel that is closed once nothing runs any more. A
// goroutine started later is not waited for.
func (g *Group) Done() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.total == 0 {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	return g.idle
}

// Wait blocks until nothing runs any more.
func (g *Group) Wait() { <-g.Done() }

// Leaked returns nil when nothing runs, else an error that names what does. A
// test calls it after all is said to have stopped.
func (g *Group) Leaked() error {
	names := g.Names()
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%d goroutines still run: %s", g.Len(), strings.Join(names, ", "))
}
