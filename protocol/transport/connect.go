package transport

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// attempt begins to connect.
func (p *peer) attempt(now model.Instant) {
	to, known := p.cfg.Address()
	if !known {
		p.failures++
		p.backoff(now)
		return
	}
	p.state = stateDialing
	p.useful = false
	p.connectBy = now + model.Instant(p.cfg.ConnectTimeout)
	p.due(p.connectBy)
	p.conn = &link{box: p.box}
	p.cfg.Counts.Connects.Add(1)
	p.conn.stream = p.cfg.Dialer.Open(to, p.cfg.Class, p.conn)
}

// retry ends a delay: with an attempt if one is wanted.
func (p *peer) retry(now model.Instant) {
	if !p.wanted() {
		p.state = stateIdle
		return
	}
	p.attempt(now)
}

// wanted reports whether there is reason to connect.
func (p *peer) wanted() bool { return p.waiting.len() > 0 }

// backoff waits before the next attempt: longer with each failure, with jitter.
func (p *peer) backoff(now model.Instant) {
	delay := model.Instant(p.cfg.BackoffMin)
	for i := 1; i < p.failures && delay < model.Instant(p.cfg.BackoffMax); i++ {
		delay *= 2
	}
	delay = min(delay, model.Instant(p.cfg.BackoffMax))
	fifth := max(delay/5, 1)
	delay += model.Instant(p.cfg.Rand.Int64N(int64(2*fifth)+1)) - fifth
	p.state = stateBackoff
	p.retryAt = now + delay
	p.due(p.retryAt)
}

// down is the end of the present connection or attempt, whose stream says or was
// told so.
func (p *peer) down(now model.Instant, err error, out *loop.Outbox) {
	connected := p.state == stateReady
	p.conn = nil
	p.cfg.Counts.Lost.Add(1)
	if connected {
		p.flight.take(nil, func(r *pending) { out.Add(r.fail(ErrLost, err)) })
	} else {
		p.flight.take(nil, nil) // ApiVersions alone, which nobody waits for
		p.waiting.take(nil, func(r *pending) { out.Add(r.fail(ErrLost, ErrNotSent, err)) })
	}
	if p.cfg.Lost != nil {
		out.Add(&lost{p.cfg.Lost, err})
	}
	p.versions = nil
	if connected && p.useful && now-p.readyAt >= model.Instant(p.cfg.BackoffMax) {
		// It was of use for long: the first attempt waits for nothing.
		p.state = stateIdle
		if p.wanted() {
			p.attempt(now)
		}
		return
	}
	p.failures++
	p.backoff(now)
}

// lost tells the owner of a peer that a connection is gone.
type lost struct {
	fn  func(err error)
	err error
}

// Deliver implements loop.Delivery.
func (l *lost) Deliver(model.Now) { l.fn(l.err) }

// askedFirst is the version in which ApiVersions is asked first. A node that
// doesn't know it answers in version 0 (KIP-511).
const askedFirst int16 = 3

// askVersions asks what the other node knows.
func (p *peer) askVersions(version int16) {
	p.state, p.asked = stateAsking, version
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = version
	req.ClientSoftwareName, req.ClientSoftwareVersion = "tidemark", "1"
	r := &pending{Request: Request{Msg: req}, version: version, deadline: model.Never}
	p.put(r)
	p.flight.push(r)
}

// versionsAnswered makes the connection ready, or asks again in a version that
// the other node knows.
func (p *peer) versionsAnswered(now model.Instant, r *pending, body []byte, out *loop.Outbox) {
	if len(body) >= 2 && int16(binary.BigEndian.Uint16(body)) == protocol.CodeUnsupportedVersion && p.asked != 0 {
		p.askVersions(0)
		return
	}
	msg, err := DecodeAnswer(r.Msg, body)
	if err == nil {
		if code := msg.(*kmsg.ApiVersionsResponse).ErrorCode; code != 0 {
			err = fmt.Errorf("ApiVersions: error code %d: %w", code, ErrMalformed)
		}
	}
	if err != nil {
		p.conn.stream.Close()
		p.down(now, err, out)
		return
	}
	p.versions = versionsOf(msg.(*kmsg.ApiVersionsResponse))
	p.state, p.readyAt = stateReady, now
	p.write(out)
}

// versions are the ranges of APIs that a node knows, by key.
type versions map[int16]span

type span struct{ low, high int16 }

func versionsOf(resp *kmsg.ApiVersionsResponse) versions {
	v := make(versions, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		v[k.ApiKey] = span{k.MinVersion, k.MaxVersion}
	}
	return v
}

// choose returns the version to send a request in: the highest that both nodes
// know. Private APIs are not advertised: those of one release know each other,
// and the version says what is meant.
func (v versions) choose(r *Request) (int16, error) {
	if r.Msg == nil {
		if r.Key < protocol.FirstPrivateKey {
			return 0, ErrUnsupported
		}
		return r.Version, nil
	}
	theirs, ok := v[r.Msg.Key()]
	if !ok {
		return 0, fmt.Errorf("not served by the other node: %w", ErrUnsupported)
	}
	ours := span{0, r.Msg.MaxVersion()}
	if api, ok := protocol.Lookup(r.Msg.Key()); ok {
		ours = span{api.ServedMin, min(api.Max, ours.high)}
	}
	version := min(ours.high, theirs.high)
	if version < max(ours.low, theirs.low) {
		return 0, fmt.Errorf("we know versions %d to %d, the other node %d to %d: %w", ours.low, ours.high, theirs.low, theirs.high, ErrUnsupported)
	}
	return version, nil
}
