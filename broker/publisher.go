package broker

import (
	"sync"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
)

// publisher brings each new image to the partitions, in order, off the
// controller's loop: making a partition's directory takes the disk's time, and
// the controller must not wait for it. Those who want to answer a client only
// when its change is in force here wait for an offset.
//
// It is a queue that a spare works off, one at a time. It is no loop, since what
// it does blocks and enters loops.
//
// Images are held until the partitions have been loaded from the image that the
// process started with; those up to it are in force by then.
type publisher struct {
	rt    loop.Runtime
	apply func(img *metadata.Image, d *metadata.Delta)

	// mu guards what follows; it is never held while apply runs.
	mu      sync.Mutex
	queue   []publication
	waiters []appliedWaiter
	loaded  bool         // the partitions have been loaded
	applied model.Offset // offset of the last image in force
	called  bool         // a spare was asked for and has not come yet
	running bool         // a spare is at it
	closed  bool
	idle    sync.Cond // on mu: running became false
}

// publication is an image to bring to the partitions, or something else to do in
// line with that.
type publication struct {
	img   *metadata.Image
	delta *metadata.Delta
	run   func()
}

// appliedWaiter is told once the image at an offset is in force on this broker.
type appliedWaiter struct {
	at   model.Offset
	done loop.Delivery
}

func newPublisher(rt loop.Runtime, apply func(*metadata.Image, *metadata.Delta)) *publisher {
	p := &publisher{rt: rt, apply: apply, applied: model.NoOffset}
	p.idle.L = &p.mu
	return p
}

// publish queues an image. It is a quorum.Subscriber.
func (p *publisher) publish(img *metadata.Image, d *metadata.Delta) {
	p.mu.Lock()
	p.queue = append(p.queue, publication{img: img, delta: d})
	p.wake()
}

// serial queues something that must not happen while an image takes effect.
func (p *publisher) serial(run func()) {
	p.mu.Lock()
	p.queue = append(p.queue, publication{run: run})
	p.wake()
}

// start lets images above offset at take effect; that one is in force.
func (p *publisher) start(at model.Offset) {
	p.mu.Lock()
	p.loaded, p.applied = true, at
	p.wake()
}

// await has done delivered once the image at the offset is in force.
func (p *publisher) await(at model.Offset, done loop.Delivery) {
	p.mu.Lock()
	p.waiters = append(p.waiters, appliedWaiter{at: at, done: done})
	p.wake()
}

// inForce returns the offset of the last image in force, NoOffset before start.
func (p *publisher) inForce() model.Offset {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.applied
}

// wake asks for a spare unless one is at work, and unlocks.
func (p *publisher) wake() {
	call := p.loaded && !p.called && !p.running && !p.closed
	p.called = p.called || call
	p.mu.Unlock()
	if call {
		p.rt.Spare(p)
	}
}

// Deliver implements loop.Delivery: it works the queue off.
func (p *publisher) Deliver(now model.Now) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.called, p.running = false, true
	for !p.closed {
		if p.tell(now) {
			continue // more may have come meanwhile
		}
		if len(p.queue) == 0 {
			break
		}
		next := p.queue[0]
		p.queue[0] = publication{}
		p.queue = p.queue[1:]
		if next.run != nil {
			p.mu.Unlock()
			next.run()
			p.mu.Lock()
			continue
		}
		if at := next.img.At().Offset; at > p.applied {
			p.mu.Unlock()
			p.apply(next.img, next.delta)
			p.mu.Lock()
			p.applied = at
		}
	}
	p.running = false
	p.idle.Broadcast()
}

// tell delivers to those whose offset has been reached, if there are any. Called
// with mu held, which it gives up meanwhile.
func (p *publisher) tell(now model.Now) bool {
	var ready []loop.Delivery
	kept := p.waiters[:0]
	for _, w := range p.waiters {
		if w.at <= p.applied {
			ready = append(ready, w.done)
		} else {
			kept = append(kept, w)
		}
	}
	clear(p.waiters[len(kept):])
	p.waiters = kept
	if len(ready) == 0 {
		return false
	}
	p.mu.Unlock()
	for _, d := range ready {
		d.Deliver(now)
	}
	p.mu.Lock()
	return true
}

// close waits for what is under way; no image takes effect afterwards.
func (p *publisher) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for p.running {
		p.idle.Wait()
	}
}
