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
// Images are held until the partitions have been loaded from the image that the
// process started with; those up to it are in force by then.
type publisher struct {
	box   *loop.Box[published]
	apply func(img *metadata.Image, d *metadata.Delta)

	// mu is held while an image is brought into force, so that close can wait
	// for that to end.
	mu     sync.Mutex
	closed bool

	// What follows belongs to the loop.

	loaded  bool         // the partitions have been loaded
	held    []published  // images that came before
	applied model.Offset // offset of the last image in force
	waiters []appliedWaiter
}

// published is a message to the publisher: an image, a waiter, or the offset of
// the image that the partitions were loaded from.
type published struct {
	img    *metadata.Image
	delta  *metadata.Delta
	waiter *appliedWaiter
	loaded model.Offset // with neither image nor waiter
}

// appliedWaiter is told once the image at an offset is in force on this broker.
type appliedWaiter struct {
	at   model.Offset
	done loop.Delivery
}

func newPublisher(rt loop.Runtime, apply func(*metadata.Image, *metadata.Delta)) *publisher {
	p := &publisher{apply: apply, applied: model.NoOffset}
	p.box = loop.NewBox[published](p, rt)
	return p
}

// publish queues an image. It is a quorum.Subscriber.
func (p *publisher) publish(img *metadata.Image, d *metadata.Delta) {
	p.box.Post(published{img: img, delta: d})
}

// start lets images above offset at take effect; that one is in force.
func (p *publisher) start(at model.Offset) { p.box.Post(published{loaded: at}) }

// await has done delivered once the image at the offset is in force.
func (p *publisher) await(at model.Offset, done loop.Delivery) {
	p.box.Post(published{waiter: &appliedWaiter{at: at, done: done}})
}

// Handle implements loop.Handler.
func (p *publisher) Handle(_ model.Now, m published, out *loop.Outbox) {
	switch {
	case m.waiter != nil:
		p.waiters = append(p.waiters, *m.waiter)
	case m.img == nil:
		p.loaded, p.applied = true, m.loaded
		held := p.held
		p.held = nil
		for _, h := range held {
			p.take(h)
		}
	default:
		p.take(m)
	}
	p.release(out)
}

func (p *publisher) take(m published) {
	switch {
	case !p.loaded:
		p.held = append(p.held, m)
	case m.img.At().Offset > p.applied && p.enforce(m):
		p.applied = m.img.At().Offset
	}
}

func (p *publisher) enforce(m published) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.apply(m.img, m.delta)
	}
	return !p.closed
}

// close waits for what is under way; no image takes effect afterwards.
func (p *publisher) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// release tells those whose offset has been reached.
func (p *publisher) release(out *loop.Outbox) {
	kept := p.waiters[:0]
	for _, w := range p.waiters {
		if p.loaded && w.at <= p.applied {
			out.Add(w.done)
		} else {
			kept = append(kept, w)
		}
	}
	clear(p.waiters[len(kept):])
	p.waiters = kept
}

// NextDeadline implements loop.Handler.
func (p *publisher) NextDeadline() model.Instant { return model.Never }

// Tick implements loop.Handler.
func (p *publisher) Tick(model.Now, *loop.Outbox) {}
