package server

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fixed is an answer that costs the handler nothing, so that the benchmarks show
// the server.
type fixed struct{ resp *kmsg.ProduceResponse }

func newFixed() fixed {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = 9
	topic := kmsg.NewProduceResponseTopic()
	topic.Topic = "t"
	topic.Partitions = append(topic.Partitions, kmsg.NewProduceResponseTopicPartition())
	resp.Topics = append(resp.Topics, topic)
	return fixed{resp: resp}
}

func (f fixed) Handle(r *Request) { r.Reply(f.resp) }

// BenchmarkRequest sends produces of 100 bytes, so many at a time, and reads the
// answers. The allocations are those of the server, kmsg's decoding included,
// since the client makes none.
func BenchmarkRequest(b *testing.B) {
	for _, depth := range []int{1, 64} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			benchmarkRequests(b, depth, newFixed())
		})
	}
}

// BenchmarkParked is the same with answers given by another goroutine.
func BenchmarkParked(b *testing.B) {
	for _, depth := range []int{1, 64} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			parked := make(chan *Request, 64)
			f := newFixed()
			go func() {
				for r := range parked {
					r.Reply(f.resp)
				}
			}()
			benchmarkRequests(b, depth, handlerFunc(func(r *Request) { parked <- r }))
			close(parked)
		})
	}
}

func benchmarkRequests(b *testing.B, depth int, handler Handler) {
	h := start(b, Config{}, handler)
	defer h.stop()
	c := h.dial()
	one := encode(produce(1, 100), 1)
	var burst []byte
	for range depth {
		burst = append(burst, one...)
	}
	in := bufio.NewReaderSize(c.nc, 64<<10)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += depth {
		if _, err := c.nc.Write(burst); err != nil {
			b.Fatal(err)
		}
		for range depth {
			size, err := in.Peek(4)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := in.Discard(4 + int(binary.BigEndian.Uint32(size))); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkProduceMiB sends produces of 1 MiB.
func BenchmarkProduceMiB(b *testing.B) {
	b.SetBytes(1 << 20)
	h := start(b, Config{}, newFixed())
	defer h.stop()
	c := h.dial()
	frame := encode(produce(1, 1<<20), 1)
	go func() {
		for range b.N {
			if _, err := c.nc.Write(frame); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	b.ReportAllocs()
	b.ResetTimer()
	in := bufio.NewReaderSize(c.nc, 64<<10)
	for range b.N {
		size, err := in.Peek(4)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := in.Discard(4 + int(binary.BigEndian.Uint32(size))); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFetch answers with regions of a file.
func BenchmarkFetch(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		for _, sendfile := range []bool{false, true} {
			b.Run(fmt.Sprintf("size=%d sendfile=%v", size, sendfile), func(b *testing.B) {
				benchmarkFetch(b, size, sendfile)
			})
		}
	}
}

func benchmarkFetch(b *testing.B, size int, sendfile bool) {
	f, err := os.CreateTemp(b.TempDir(), "")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Write(make([]byte, size)); err != nil {
		b.Fatal(err)
	}
	var released atomic.Int32
	p := parts{make([]byte, size)}
	region := Region(&fileRegion{f: f, n: size, released: &released})
	least := -1
	if sendfile {
		least = 1
	}
	h := start(b, Config{SendfileMin: least}, handlerFunc(func(r *Request) {
		p.reply(r, func([]byte) Region { return region })
	}))
	defer h.stop()
	c := h.dial()
	one := encode(fetchRequest(), 1)
	buf := make([]byte, 256<<10)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := c.nc.Write(one); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c.nc, buf[:4]); err != nil {
			b.Fatal(err)
		}
		for left := int(binary.BigEndian.Uint32(buf)); left > 0; {
			n, err := c.nc.Read(buf[:min(left, len(buf))])
			if err != nil {
				b.Fatal(err)
			}
			left -= n
		}
	}
}

// BenchmarkIdleConnections reports what a connection costs that has sent one
// request and waits. The client's ends are in the same process and counted too.
func BenchmarkIdleConnections(b *testing.B) {
	const n = 2000
	for range b.N {
		h := start(b, Config{}, newFixed())
		before := resident(b)
		var cs []*client
		for range n {
			c := h.dial()
			c.r = nil
			c.write(encode(produce(1, 100), 1))
			var buf [64]byte
			if _, err := c.nc.Read(buf[:]); err != nil {
				b.Fatal(err)
			}
			cs = append(cs, c)
		}
		runtime.GC()
		b.ReportMetric(float64(resident(b)-before)/n, "B/connection")
		runtime.KeepAlive(cs)
		for _, c := range cs {
			_ = c.nc.Close()
		}
		h.stop()
	}
}

func resident(b *testing.B) int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return kb << 10
}
