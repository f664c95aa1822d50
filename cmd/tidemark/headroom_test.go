package main

import (
	"runtime"
	"testing"
	"time"
)

// Memory is given back after a burst, not in it, not for a trifle, and not again at
// once.
func TestHeadroomGivesBack(t *testing.T) {
	h := headroom{percent: headroomMost, sinceRelease: headroomPatient}
	const live = 60 << 20
	if h.release(live, live) {
		t.Error("in a burst")
	}
	for range 10 {
		h.next(time.Second, 0)
	}
	if h.release(live/4, live) || h.release(headroomFree-1, 1<<20) {
		t.Error("for a trifle")
	}
	if !h.release(live/2, live) {
		t.Error("not after the burst")
	}
	if h.release(live, live) {
		t.Error("twice")
	}
	h.next(headroomPatient, 0)
	if !h.release(live, live) {
		t.Error("not again after a while")
	}
}

// What is read of the runtime is there.
func TestHeapMetrics(t *testing.T) {
	m := newHeapMetrics()
	runtime.GC()
	m.read()
	if m.live() == 0 || m.allocated() < m.live() {
		t.Errorf("%d bytes live, %d allocated", m.live(), m.allocated())
	}
	_ = m.free() // of the right kind, or it panics
}

func TestHeadroom(t *testing.T) {
	h := headroom{percent: headroomMost}
	for range 10 {
		h.next(time.Second, headroomCalm/2)
	}
	if h.percent != headroomLeast {
		t.Fatalf("at rest: %d, want %d", h.percent, headroomLeast)
	}
	// A checkpoint now and then is no work.
	for i := range 60 {
		if h.next(time.Second, uint64(i%10/9)*10<<20); h.percent != headroomLeast {
			t.Fatalf("second %d with a little to do: %d", i, h.percent)
		}
	}
	if h.next(time.Second, 50<<20); h.percent != headroomMost {
		t.Errorf("a second after work began: %d, want %d", h.percent, headroomMost)
	}
	// What lies between the two bounds changes nothing.
	for _, percent := range []int{headroomLeast, headroomMost} {
		h := headroom{percent: percent, rate: headroomCalm * 3 / 2}
		for range 60 {
			if h.next(time.Second, headroomCalm*3/2); h.percent != percent {
				t.Fatalf("%d became %d", percent, h.percent)
			}
		}
	}
	for range 20 {
		h.next(time.Second, 0)
	}
	if h.percent != headroomLeast {
		t.Errorf("20 seconds after the work: %d, want %d", h.percent, headroomLeast)
	}
}
