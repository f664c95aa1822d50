package server

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// memRegion is a region in memory; released counts.
type memRegion struct {
	data     []byte
	lies     int   // how many bytes it promises beyond those it has
	err      error // of every read
	released *atomic.Int32
}

func (r *memRegion) Len() int { return len(r.data) + r.lies }

func (r *memRegion) ReadAt(p []byte, off int64) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	return bytes.NewReader(r.data).ReadAt(p, off)
}

func (r *memRegion) OSFile() (*os.File, int64, bool) { return nil, 0, false }
func (r *memRegion) Release()                        { r.released.Add(1) }

// fileRegion is a region of a file.
type fileRegion struct {
	f        *os.File
	pos      int64
	n        int
	released *atomic.Int32
}

func (r *fileRegion) Len() int                                { return r.n }
func (r *fileRegion) ReadAt(p []byte, off int64) (int, error) { return r.f.ReadAt(p, r.pos+off) }
func (r *fileRegion) OSFile() (*os.File, int64, bool)         { return r.f, r.pos, true }
func (r *fileRegion) Release()                                { r.released.Add(1) }

func fetchRequest() *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version = 12
	return req
}

// parts is what the regions of one answer hold.
type parts [][]byte

func (p parts) reply(r *Request, region func(data []byte) Region) {
	b := NewFetchBody()
	b.Begin(r.Header.Version, protocol.FetchHead{Topics: 1})
	b.Topic("topic", model.TopicID{}, len(p))
	for i, data := range p {
		fp := protocol.NewFetchPartition(int32(i))
		b.Partition(&fp, region(data))
	}
	b.End(nil)
	r.ReplyFetch(b)
}

func (p parts) check(t *testing.T, body []byte) {
	t.Helper()
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 12
	if err := resp.ReadFrom(body[1:]); err != nil {
		t.Fatal(err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != len(p) {
		t.Fatalf("%d topics", len(resp.Topics))
	}
	for i, rp := range resp.Topics[0].Partitions {
		if rp.Partition != int32(i) || !bytes.Equal(rp.RecordBatches, p[i]) {
			t.Fatalf("partition %d: %d bytes that are not the %d of part %d", rp.Partition, len(rp.RecordBatches), len(p[i]), i)
		}
	}
}

func randomParts(rng *rand.Rand) parts {
	var p parts
	for range 1 + rng.IntN(5) {
		n := rng.IntN(2000)
		switch rng.IntN(6) {
		case 0:
			n = 0
		case 1:
			n = 100_000 + rng.IntN(100_000)
		case 2:
			n = 256<<10 + rng.IntN(200<<10)
		}
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		p = append(p, data)
	}
	return p
}

// TestFetchBodies sends answers of small and large regions, from memory and from
// a file, answered at once and later, mixed with other answers.
func TestFetchBodies(t *testing.T) {
	for _, over := range []string{"socket", "pipe"} {
		for _, from := range []string{"memory", "file"} {
			for _, inline := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s from %s inline=%v", over, from, inline), func(t *testing.T) {
					testFetchBodies(t, over, from, inline)
				})
			}
		}
	}
}

func testFetchBodies(t *testing.T, over, from string, inline bool) {
	rng := rand.New(rand.NewPCG(1, 9))
	const n = 24
	var all [n]parts
	var regions int32
	for i := range all {
		all[i] = randomParts(rng)
		regions += int32(len(all[i]))
	}
	var released atomic.Int32
	region := func(data []byte) Region { return &memRegion{data: data, released: &released} }
	if from == "file" {
		region = intoFile(t, all[:], &released)
	}
	later := make(chan *Request, n)
	h := start(t, Config{}, handlerFunc(func(r *Request) {
		switch id := r.Header.CorrelationID; {
		case id%4 == 3:
			echo(r)
		case inline:
			all[id].reply(r, region)
		default:
			later <- r
		}
	}))
	c := h.open(over)
	go func() {
		for r := range later {
			all[r.Header.CorrelationID].reply(r, region)
		}
	}()
	go func() {
		for i := range int32(n) {
			req := kmsg.Request(fetchRequest())
			if i%4 == 3 {
				req = metadata("between")
			}
			if _, err := c.nc.Write(encode(req, i)); err != nil {
				return
			}
		}
	}()
	for i := range int32(n) {
		body := c.want(i)
		if i%4 == 3 {
			regions -= int32(len(all[i]))
			continue
		}
		all[i].check(t, body)
	}
	h.stop()
	close(later)
	if got := released.Load(); got != regions {
		t.Errorf("%d regions released, want %d", got, regions)
	}
}

// intoFile writes all parts one behind the other into a file and returns a
// function that finds them there.
func intoFile(t *testing.T, all []parts, released *atomic.Int32) func([]byte) Region {
	f, err := os.Create(filepath.Join(t.TempDir(), "segment"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	at := make(map[*byte]int64)
	pos := int64(0)
	for _, p := range all {
		for _, data := range p {
			if len(data) == 0 {
				continue
			}
			at[&data[0]] = pos
			if _, err := f.WriteAt(data, pos); err != nil {
				t.Fatal(err)
			}
			pos += int64(len(data))
		}
	}
	return func(data []byte) Region {
		r := &fileRegion{f: f, n: len(data), released: released}
		if len(data) > 0 {
			r.pos = at[&data[0]]
		}
		return r
	}
}

// TestShortRegionClosesTheConnection: once the header has promised bytes that do
// not come, nothing sensible can follow.
func TestShortRegionClosesTheConnection(t *testing.T) {
	for _, over := range []string{"socket", "pipe"} {
		for _, n := range []int{100, 300_000} {
			for _, inline := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %d inline=%v", over, n, inline), func(t *testing.T) {
					var released atomic.Int32
					bad := func(data []byte) Region {
						if len(data)%2 == 1 {
							return &memRegion{data: data, err: errors.New("disk"), released: &released}
						}
						return &memRegion{data: data, lies: 1, released: &released}
					}
					testBadRegion(t, over, inline, parts{make([]byte, 10), make([]byte, n)}, bad)
					if got := released.Load(); got != 2 {
						t.Errorf("%d regions released, want 2", got)
					}
				})
			}
		}
	}
}

// TestFileShorterThanRegion is the same for sendfile, which ends early instead
// of failing.
func TestFileShorterThanRegion(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "segment"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := f.Truncate(300_000); err != nil {
		t.Fatal(err)
	}
	var released atomic.Int32
	region := func([]byte) Region { return &fileRegion{f: f, n: 400_000, released: &released} }
	testBadRegion(t, "socket", true, parts{make([]byte, 400_000)}, region)
	if got := released.Load(); got != 1 {
		t.Errorf("%d regions released", got)
	}
}

func testBadRegion(t *testing.T, over string, inline bool, p parts, region func([]byte) Region) {
	parked := make(chan *Request, 1)
	h := start(t, Config{}, handlerFunc(func(r *Request) {
		if inline {
			p.reply(r, region)
			return
		}
		parked <- r
	}))
	c := h.open(over)
	c.send(fetchRequest(), 1)
	if !inline {
		r := <-parked
		p.reply(r, region)
	}
	c.wantClosed()
	h.stop()
}

// TestAbandonedFetchReleasesItsRegions: the peer left before the answer, or
// before its turn.
func TestAbandonedFetchReleasesItsRegions(t *testing.T) {
	parked := make(chan *Request, 2)
	h := start(t, Config{}, handlerFunc(func(r *Request) { parked <- r }))
	c := h.dial()
	c.send(fetchRequest(), 1)
	c.send(fetchRequest(), 2)
	one, two := <-parked, <-parked
	var released atomic.Int32
	region := func(data []byte) Region { return &memRegion{data: data, released: &released} }
	p := parts{make([]byte, 10)}
	p.reply(two, region) // waits behind one
	_ = c.nc.Close()
	eventually(t, one.Abandoned)
	p.reply(one, region)
	eventually(t, func() bool { return released.Load() == 2 })
}

func TestDiscardReleases(t *testing.T) {
	var released atomic.Int32
	b := NewFetchBody()
	b.Begin(4, protocol.FetchHead{Topics: 1})
	b.Topic("t", model.TopicID{}, 2)
	p := protocol.NewFetchPartition(0)
	b.Partition(&p, &memRegion{data: []byte("x"), released: &released})
	b.Partition(&p, &memRegion{released: &released})
	if got := released.Load(); got != 1 {
		t.Errorf("an empty region is released at once, %d were", got)
	}
	b.End(nil)
	b.Discard()
	if got := released.Load(); got != 2 {
		t.Errorf("%d regions released", got)
	}
}

// TestLongAnswersBetweenBodies: answers longer than the buffer that headers and
// records are gathered in stand before, between and behind Fetch bodies.
func TestLongAnswersBetweenBodies(t *testing.T) {
	for _, over := range []string{"socket", "pipe"} {
		parked := make(chan *Request, 5)
		h := start(t, Config{}, handlerFunc(func(r *Request) { parked <- r }))
		c := h.open(over)
		go func() {
			for i := range int32(5) {
				req := kmsg.Request(fetchRequest())
				if i%2 == 0 {
					req = metadata("long")
				}
				if _, err := c.nc.Write(encode(req, i)); err != nil {
					return
				}
			}
		}()
		var rs []*Request
		for range 5 {
			rs = append(rs, <-parked)
		}
		long := bytes.Repeat([]byte("long answer"), 50_000)
		var released atomic.Int32
		p := parts{[]byte("some records"), long[:1000]}
		// The oldest last, so that all are written together.
		for i := 4; i >= 0; i-- {
			if i%2 == 0 {
				rs[i].ReplyRaw(long)
				continue
			}
			p.reply(rs[i], func(data []byte) Region { return &memRegion{data: data, released: &released} })
		}
		for i := range int32(5) {
			body := c.want(i)
			if i%2 == 1 {
				p.check(t, body)
			} else if !bytes.Equal(body[1:], long) {
				t.Errorf("over a %s: answer %d arrived changed", over, i)
			}
		}
		h.stop()
		if got := released.Load(); got != 4 {
			t.Errorf("%d regions released", got)
		}
	}
}
