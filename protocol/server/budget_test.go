package server

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

func TestSizeClasses(t *testing.T) {
	last := -1
	for _, n := range []int{0, 1, 1023, 1024, 1025, 2048, 2049, 65535, 65536, 65537, 81920, 81921, 131072, 131073, 1 << 20, 1<<20 + 1, 100 << 20, 100<<20 + 4} {
		class, size := sizeClass(n)
		if size < n || n > frameMin && size > 2*n || n > frameStart && size > n+n/4+1 {
			t.Errorf("%d bytes get %d", n, size)
		}
		if class < last || class >= classCount {
			t.Errorf("%d bytes are of class %d of %d, shorter ones of %d", n, class, classCount, last)
		}
		last = class
		if again, same := sizeClass(size); again != class || same != size {
			t.Errorf("class %d of %d bytes is taken for class %d of %d", class, size, again, same)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		a := rng.IntN(1 << 27)
		b := a + rng.IntN(1<<20)
		ca, sa := sizeClass(a)
		cb, sb := sizeClass(b)
		if ca > cb || sa > sb || sa < a {
			t.Fatalf("%d: class %d of %d, %d: class %d of %d", a, ca, sa, b, cb, sb)
		}
	}
}

// TestBudgetModel lets tasks ask, wait, leave and give at random and checks that
// the limit is exceeded by the holder of the token alone, that nobody waits while
// the token is free, and that all comes back.
func TestBudgetModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 200 {
		b := budget{limit: 100}
		type held struct {
			bytes int64
			token bool
		}
		var holds []held
		var waits []*budgetWait
		beyond := int64(0)
		settle := func() {
			kept := waits[:0]
			for _, w := range waits {
				select {
				case token := <-w.granted:
					holds = append(holds, held{w.bytes, token})
				default:
					kept = append(kept, w)
				}
			}
			waits = kept
		}
		for range 300 {
			switch rng.IntN(3) {
			case 0:
				n := 1 + rng.Int64N(60)
				wait, token := b.ask(n, b.limit)
				if wait == nil {
					holds = append(holds, held{n, token})
				} else {
					waits = append(waits, wait)
				}
			case 1:
				if len(holds) > 0 {
					i := rng.IntN(len(holds))
					h := holds[i]
					holds = append(holds[:i], holds[i+1:]...)
					b.give(h.bytes)
					if h.token {
						b.returnToken()
					}
				}
			case 2:
				if len(waits) > 0 && rng.IntN(4) == 0 {
					b.leave(waits[0])
					waits = waits[1:]
				}
			}
			settle()
			sum, tokens := int64(0), 0
			beyond = 0
			for _, h := range holds {
				sum += h.bytes
				if h.token {
					tokens++
					beyond += h.bytes
				}
			}
			if sum != b.used.Load() {
				t.Fatalf("%d bytes are held, %d are counted", sum, b.used.Load())
			}
			if tokens > 1 || sum > b.limit+beyond {
				t.Fatalf("%d bytes held with %d tokens of %d bytes", sum, tokens, beyond)
			}
			if len(waits) > 0 && tokens == 0 {
				t.Fatalf("%d wait while nobody has the token", len(waits))
			}
			if int(b.waiters.Load()) != len(waits) {
				t.Fatalf("%d wait, %d are counted", len(waits), b.waiters.Load())
			}
		}
	}
}

func TestBudgetUnderContention(t *testing.T) {
	b := budget{limit: 1000}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range int64(2000) {
				n := 100 + i%700
				wait, token := b.ask(n, b.limit)
				if wait != nil {
					token = <-wait.granted
				}
				b.give(n)
				if token {
					b.returnToken()
				}
			}
		})
	}
	wg.Wait()
	if b.used.Load() != 0 || b.waiters.Load() != 0 || b.token {
		t.Errorf("%d bytes, %d waiters, token %v are left", b.used.Load(), b.waiters.Load(), b.token)
	}
}

// TestManyLongFramesThroughASmallBudget: long frames of more connections than the
// budget can hold at once all get through, though each holds memory while it
// waits for more, and short requests are not held up.
func TestManyLongFramesThroughASmallBudget(t *testing.T) {
	h := start(t, Config{FrameBytesMax: 1 << 20}, handlerFunc(func(r *Request) {
		if r.Header.Key == 0 {
			checksum(r)
			return
		}
		echo(r)
	}))
	const n, size = 12, 900_000
	var wg sync.WaitGroup
	for range n {
		c := h.dial()
		wg.Go(func() {
			for i := range int32(3) {
				if _, err := c.nc.Write(encode(produce(byte(i), size), i)); err != nil {
					t.Error(err)
					return
				}
				id, body, err := c.tryNext()
				if err != nil || id != i || sumOf(t, body) != wantSum(byte(i), size) {
					t.Errorf("answer to %d: %v", id, err)
					return
				}
			}
		})
	}
	c := h.dial()
	for i := range int32(50) {
		c.send(metadata("x"), i)
		c.want(i)
	}
	wg.Wait()
}

// TestStalledFramesDoNotStopOthers: frames that hold the whole budget and never
// end give way to those that do, long before they are too slow by themselves.
func TestStalledFramesDoNotStopOthers(t *testing.T) {
	const patience = 5 * time.Second
	h := start(t, Config{FrameBytesMax: 1 << 20, FrameMin: patience}, handlerFunc(checksum))
	begin := time.Now()
	for range 8 {
		c := h.dial()
		b := append(binary.BigEndian.AppendUint32(nil, 50<<20), 0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0)
		c.write(append(b, make([]byte, 250_000)...))
	}
	eventually(t, func() bool { return h.srv.Stats().FrameBytes > 1<<20 })
	for i := range int32(3) {
		c := h.dial()
		if err := c.nc.(*net.TCPConn).SetWriteBuffer(1 << 20); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = c.nc.Write(encode(produce(1, 500_000), i)) }()
		c.want(i)
	}
	if took := time.Since(begin); took > patience {
		t.Errorf("took %v", took)
	}
}

// TestShutdownWhileWaitingForMemory: connections that wait for the budget end,
// and take nothing of it with them.
func TestShutdownWhileWaitingForMemory(t *testing.T) {
	h := start(t, Config{FrameBytesMax: 300 << 10}, handlerFunc(checksum))
	for range 6 {
		c := h.dial()
		b := append(binary.BigEndian.AppendUint32(nil, 50<<20), 0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0)
		c.write(append(b, make([]byte, 150_000)...))
	}
	budget := &h.srv.frames.budget
	eventually(t, func() bool { return budget.waiters.Load() > 0 })
	h.stop()
	if budget.waiters.Load() != 0 || budget.token {
		t.Errorf("%d waiters, token %v are left", budget.waiters.Load(), budget.token)
	}
}
