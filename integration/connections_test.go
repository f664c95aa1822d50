package integration

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// rss returns the bytes that the process holds in memory.
func (n *node) rss() int64 {
	n.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.p.Pid()))
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				n.t.Fatal(err)
			}
			return kib << 10
		}
	}
	n.t.Fatal("no VmRSS")
	return 0
}

// cpu returns the processor time that the process has used.
func (n *node) cpu() time.Duration {
	n.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.p.Pid()))
	if err != nil {
		n.t.Fatal(err)
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// descriptors counts the process's open files.
func (n *node) descriptors() int {
	n.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.p.Pid()))
	if err != nil {
		n.t.Fatal(err)
	}
	return len(entries)
}

// served sends n requests, one at a time, on a connection of its own and returns
// the median time of an answer.
func (n *node) served(count int) time.Duration {
	n.t.Helper()
	c := n.dial()
	defer c.Close()
	var took []time.Duration
	for i := range count {
		start := time.Now()
		if _, err := c.Write(frame(kmsg.NewPtrMetadataRequest(), 9, int32(i))); err != nil {
			n.t.Fatal(err)
		}
		if b, err := readFrame(c, 20*time.Second); err != nil || int32(binary.BigEndian.Uint32(b)) != int32(i) {
			n.t.Fatalf("request %d of a well-behaved client: %v", i, err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[count/2]
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		c.Close()
	}
}

// TestIdleConnections measures what a connection costs that has asked once and
// says nothing any more.
func TestIdleConnections(t *testing.T) {
	n := newNode(t)
	n.start()
	n.topic("busy", 1)
	alone := n.served(200)
	before := n.rss()
	const count = 5000
	conns := make([]net.Conn, 0, count)
	defer func() { closeAll(conns) }()
	hello := frame(kmsg.NewPtrApiVersionsRequest(), 0, 1)
	for range count {
		c := n.dial()
		conns = append(conns, c)
		if _, err := c.Write(hello); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range conns {
		if _, err := readFrame(c, 30*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	crowded := n.served(200)
	each := (n.rss() - before) / count
	t.Logf("RSS per idle connection: %d bytes (%d connections, %d MiB without them); median of a Metadata %s, %s without them",
		each, count, before>>20, crowded.Round(time.Microsecond), alone.Round(time.Microsecond))
	if each > 32<<10 {
		t.Errorf("an idle connection holds %d bytes", each)
	}
	if crowded > 20*alone+20*time.Millisecond {
		t.Errorf("a request takes %s beside %d idle connections, %s without", crowded, count, alone)
	}
	start := time.Now()
	n.stop()
	t.Logf("stopped with %d connections open in %s", count, time.Since(start).Round(time.Millisecond))
}

// TestSlowClients: one byte at a time, half a frame, a giant frame announced and
// never sent, readers that do not read. The others are served and memory stays.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	n.topic("read", 1)
	cl := n.client()
	defer cl.Close()
	for range 40 {
		if _, code, err := n.produceOnce(cl, tp{"read", 0}, batch(10, 50_000)); err != nil || code != 0 {
			t.Fatal(code, err)
		}
	}
	n.served(20)
	before := n.rss()
	var conns []net.Conn
	defer func() { closeAll(conns) }()
	open := func(count int, first []byte) []net.Conn {
		for range count {
			c := n.dial()
			conns = append(conns, c)
			if _, err := c.Write(first); err != nil {
				t.Fatal(err)
			}
		}
		return conns[len(conns)-count:]
	}
	hello := frame(kmsg.NewPtrApiVersionsRequest(), 0, 7)

	// Half frames, and frames announced as 100 MiB of Produce of which 1 KiB comes.
	open(300, hello[:len(hello)/2])
	giant := frame(kmsg.NewPtrProduceRequest(), 11, 1)
	binary.BigEndian.PutUint32(giant, 100<<20)
	open(300, append(giant, make([]byte, 1024)...))
	n.served(20)
	if grown := n.rss() - before; grown > 100<<20 {
		t.Errorf("600 unfinished frames hold %d MiB", grown>>20)
	} else {
		t.Logf("600 unfinished frames, half of them announced as 100 MiB: %d KiB each", grown>>10/600)
	}

	// One byte at a time.
	slow := open(200, hello[:1])
	for i := 1; i < len(hello); i++ {
		for _, c := range slow {
			if _, err := c.Write(hello[i : i+1]); err != nil {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
	}
	for _, c := range slow {
		if b, err := readFrame(c, 20*time.Second); err != nil || b[3] != 7 {
			t.Fatalf("a client of one byte at a time: %v", err)
		}
	}

	// Readers that ask for 20 MiB a hundred times each and never read.
	open(100, bytes.Repeat(frame(fetchMuch("read"), 11, 1), 100))
	n.served(50)
	pause(300 * time.Millisecond)
	if grown := n.rss() - before; grown > 300<<20 {
		t.Errorf("with 100 readers that do not read, %d MiB more", grown>>20)
	} else {
		t.Logf("with 100 readers that do not read %d fetches of 20 MiB each: %d MiB more", 100, grown>>20)
	}
	if _, code, err := n.produceOnce(cl, tp{"read", 0}, batch(1, 100)); err != nil || code != 0 {
		t.Errorf("produce beside them: %d, %v", code, err)
	}
	n.alive()
	closeAll(conns)
	conns = nil

	// A hundred thousand requests at once whose answers nobody reads.
	before = n.rss()
	var writers sync.WaitGroup
	for _, c := range open(5, hello) {
		writers.Add(1)
		go func() {
			defer writers.Done()
			_ = c.SetWriteDeadline(time.Now().Add(2 * time.Second))
			_, _ = c.Write(bytes.Repeat(hello, 100_000)) // stops when the broker stops reading
		}()
	}
	writers.Wait()
	n.served(20)
	if grown := n.rss() - before; grown > 100<<20 {
		t.Errorf("unread answers to 500,000 requests hold %d MiB", grown>>20)
	}
	closeAll(conns)
	conns = nil
	start := time.Now()
	n.stop()
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("the stop took %s", took)
	}
}

// TestHostileBytes: nothing that arrives on the port ends the broker.
func TestHostileBytes(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	n.topic("kept", 1)
	cl := n.client()
	defer cl.Close()
	if _, code, err := n.produceOnce(cl, tp{"kept", 0}, batch(5, 100)); err != nil || code != 0 {
		t.Fatal(code, err)
	}
	send := func(b []byte) {
		c := n.dial()
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(b); err != nil {
			return // closed already: fine
		}
		_, _ = c.Read(make([]byte, 4096)) // an answer, a close or nothing
	}
	var wg sync.WaitGroup
	each := func(inputs [][]byte) {
		for _, b := range inputs {
			wg.Add(1)
			go func() { defer wg.Done(); send(b) }()
		}
		wg.Wait()
	}
	size := func(n uint32, rest ...byte) []byte { return append(binary.BigEndian.AppendUint32(nil, n), rest...) }
	each([][]byte{
		[]byte("GET / HTTP/1.1\r\nHost: broker\r\n\r\n"), []byte("POST /topics HTTP/1.1\r\n\r\n"), []byte("\x05\x01\x00"), []byte("SSH-2.0-OpenSSH_9\r\n"),
		size(0), size(1, 0), size(1<<31 - 1), size(1<<31, 1, 2, 3), size(0xffffffff), size(4, 0, 3, 0, 9), size(100<<20+1, 0, 0, 0, 11),
		size(8<<20+1, 0, 3, 0, 9), size(10, 3, 0xe7, 0, 0, 0, 0, 0, 1, 0xff, 0xff),
	})
	for range 20 {
		c := n.dial()
		_ = c.SetDeadline(time.Now().Add(2 * time.Second))
		if err := tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake(); err == nil {
			t.Error("a TLS handshake on a plain listener went well")
		}
		c.Close()
	}
	// Random bytes in frames of every API, and valid requests with changed bytes.
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 2))
	rounds := 6
	if long() {
		rounds = 200
	}
	produce := kmsg.NewPtrProduceRequest()
	pt := kmsg.NewProduceRequestTopic()
	pt.Topic = "kept"
	pp := kmsg.NewProduceRequestTopicPartition()
	pp.Records = batch(5, 100)
	pt.Partitions = append(pt.Partitions, pp)
	produce.Topics = append(produce.Topics, pt)
	produce.Acks = 1
	valid := [][]byte{frame(produce, 11, 1), frame(kmsg.NewPtrMetadataRequest(), 12, 1), frame(kmsg.NewPtrApiVersionsRequest(), 3, 1), frame(kmsg.NewPtrDescribeConfigsRequest(), 4, 1)}
	for range rounds {
		var inputs [][]byte
		for key := range byte(93) {
			body := make([]byte, rng.IntN(200))
			for i := range body {
				body[i] = byte(rng.Uint32())
			}
			inputs = append(inputs, append(size(uint32(8+len(body)), 0, key, 0, byte(rng.IntN(14)), 0, 0, 0, 1), body...))
		}
		for _, v := range valid {
			for range 10 {
				b := slices.Clone(v)
				for range 1 + rng.IntN(4) {
					b[4+rng.IntN(len(b)-4)] = byte(rng.Uint32())
				}
				inputs = append(inputs, b)
			}
		}
		each(inputs)
	}
	n.alive()
	// Clients that come and go leave nothing behind.
	fds := n.descriptors()
	for range 2000 {
		c := n.dial()
		_, _ = c.Write(valid[1])
		c.Close()
	}
	eventually(t, 10*time.Second, "the connections' descriptors are closed", func() bool { return n.descriptors() <= fds+5 })
	if said := n.p.Stderr.String(); strings.Contains(said, "panic") {
		t.Errorf("seed %d: a handler panicked:\n%s", seed, said)
	}
	if bytes, code, err := n.fetchOnce(cl, tp{"kept", 0}, 0, 1<<20); err != nil || code != 0 || bytes == 0 {
		t.Errorf("seed %d: fetch afterwards: %d bytes, code %d, %v", seed, bytes, code, err)
	}
	end := n.end(cl, tp{"kept", 0})
	n.p.Kill()
	n.start()
	cl2 := n.client()
	defer cl2.Close()
	if again := n.end(cl2, tp{"kept", 0}); again != end {
		t.Errorf("seed %d: the log ended at %d, after a restart at %d", seed, end, again)
	}
}

// TestFewFileDescriptors: with none left, accepting rests without burning the
// processor, clients that are in are served, and newcomers get in when others
// leave.
func TestFewFileDescriptors(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.wrap = []string{"sh", "-c", `ulimit -n 64; exec "$@"`, "sh"}
	n.start()
	n.topic("few", 1)
	cl := n.client()
	defer cl.Close()
	in := n.dial() // in before the crowd
	defer in.Close()
	hello := frame(kmsg.NewPtrApiVersionsRequest(), 0, 7)
	asks := func(c net.Conn) error {
		if _, err := c.Write(hello); err != nil {
			return err
		}
		_, err := readFrame(c, 10*time.Second)
		return err
	}
	if err := asks(in); err != nil {
		t.Fatal(err)
	}
	if _, code, err := n.produceOnce(cl, tp{"few", 0}, batch(1, 100)); err != nil || code != 0 {
		t.Fatal(code, err)
	}
	var crowd []net.Conn
	defer func() { closeAll(crowd) }()
	for range 150 { // the kernel completes their handshakes
		crowd = append(crowd, n.dial())
	}
	eventually(t, 10*time.Second, "accepting fails", func() bool { return strings.Contains(n.p.Stderr.String(), "accept failed") })
	before := n.cpu()
	for range 50 {
		if err := asks(in); err != nil {
			t.Fatalf("a client that was in: %v", err)
		}
		if _, code, err := n.produceOnce(cl, tp{"few", 0}, batch(1, 100)); err != nil || code != 0 {
			t.Fatalf("produce of a client that was in: %d, %v", code, err)
		}
		pause(10 * time.Millisecond)
	}
	if used := n.cpu() - before; used > 400*time.Millisecond {
		t.Errorf("%s of processor time while there was little to do", used)
	}
	if lines := strings.Count(n.p.Stderr.String(), "accept failed"); lines > 5 {
		t.Errorf("%d lines about accepting", lines)
	}
	closeAll(crowd)
	crowd = nil
	late := n.dial()
	defer late.Close()
	if err := asks(late); err != nil {
		t.Errorf("a newcomer after the others left: %v", err)
	}
}
