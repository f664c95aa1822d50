package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sender produces records one after the other, and counts those that the broker
// acknowledged. The first failure ends it.
type sender struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	cl     *kgo.Client
	acked  atomic.Int64
}

func newSender(ctx context.Context, cl *kgo.Client) *sender {
	s := &sender{cl: cl}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// ok is false once a record has failed, or the command was interrupted.
func (s *sender) ok() bool { return s.ctx.Err() == nil }

// send blocks while the client's buffer is full.
func (s *sender) send(r *kgo.Record) {
	s.cl.Produce(s.ctx, r, func(_ *kgo.Record, err error) {
		if err != nil {
			s.cancel(err)
			return
		}
		s.acked.Add(1)
	})
}

// finish waits for all that was sent, and returns how many records were
// acknowledged.
func (s *sender) finish() (int64, error) {
	defer s.cancel(nil)
	flushErr := s.cl.Flush(s.ctx)
	if cause := context.Cause(s.ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return s.acked.Load(), fmt.Errorf("produce: %w", cause)
	}
	if flushErr != nil {
		return s.acked.Load(), fmt.Errorf("produce: %w", flushErr)
	}
	return s.acked.Load(), nil
}
