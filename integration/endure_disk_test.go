package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fillsUp waits until the broker refuses a record of some size a few times, with an
// error that producers retry.
func (e *endurance) fillsUp(cl *kgo.Client, probe tp) {
	t := e.c.t
	t.Helper()
	n, refused, last := e.c.members[0].node, 0, int16(0)
	eventuallyOr(t, 2*time.Minute, func() string { return fmt.Sprintf("the disk is full; the last code was %d", last) }, func() bool {
		_, code, err := n.produceOnce(cl, probe, batch(1, 200_000))
		if err != nil {
			t.Fatal(err)
		}
		if last = code; code == 0 {
			refused = 0
			return false
		}
		if code != kerr.KafkaStorageError.Code {
			t.Fatalf("a producer was refused with code %d", code)
		}
		refused++
		return refused == 3
	})
}

// drop deletes a topic, or is told to try again.
func (e *endurance) drop(topic string) (done bool) {
	t := e.c.t
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	resp, err := kadm.NewClient(e.asker).DeleteTopic(ctx, topic)
	if err == nil {
		err = resp.Err
	}
	switch {
	case err == nil, errors.Is(err, kerr.UnknownTopicOrPartition):
		return true
	case kerr.IsRetriable(err), errors.Is(err, context.DeadlineExceeded):
		return false
	}
	t.Errorf("delete of %s: %v", topic, err)
	return false
}

// fullDisk is one run on a disk of its own.
func fullDisk(t *testing.T) (said string) {
	disk := smallDisk(t, "64")
	e := enduring(t, enduranceSpec{base: disk, most: 100_000, keep: time.Hour, set: []string{"tidemark.kept.max.bytes=4194304"}})
	m := e.c.members[0]
	e.c.create("probe", 1, []int32{1}, "segment.bytes=1048576", "retention.bytes=4194304", "retention.ms=-1")
	e.c.create("goes", 1, []int32{1})
	e.flows()
	e.moment(time.Second)
	free := int64(2<<20) + e.rng.Int64N(12<<20)
	heavy := leave(t, disk, free)
	cl := e.c.client()
	defer func() { cl.Close() }()
	var y tally
	e.fillsUp(cl, tp{"probe", 0})
	e.full = true

	// Reading goes on, and what makes room is given what it needs for that.
	e.check(true)
	tries := 0
	eventually(t, 20*time.Second, "records are deleted without room", func() bool {
		tries++
		e.trim()
		return e.trails[3].pledged().trimmed > 0
	})
	eventually(t, 20*time.Second, "a topic is deleted without room", func() bool {
		tries++
		return e.drop("goes")
	})
	e.moment(2 * time.Second)

	// The process ends, or does not, and another starts with no room.
	end := "goes on"
	if e.rng.IntN(4) > 0 {
		end = "is ended"
		cl.Close()
		e.bout(&y, e.c.members)
		cl = e.c.client()
		e.check(true)
		if e.rng.IntN(2) == 0 {
			end = "is ended twice"
			e.fillsUp(cl, tp{"probe", 0})
			e.bout(&y, e.c.members)
			e.check(false)
		}
	}
	if e.rng.IntN(3) == 0 {
		end += ", a little room first"
		if err := os.Truncate(heavy, max(fileSize(t, heavy)-1<<20, 0)); err != nil {
			t.Fatal(err)
		}
		e.moment(2 * time.Second)
	}
	if m.p.Ended() {
		t.Fatalf("the broker ended:\n%s", m.p.Stderr.String())
	}
	if err := os.Remove(heavy); err != nil {
		t.Fatal(err)
	}
	freed := time.Now()
	e.full = false
	e.flows()
	back := time.Since(freed)
	e.moment(time.Second)
	if e.rng.IntN(2) == 0 {
		e.bout(&y, e.c.members)
	}
	e.finish()
	y.words(t, m)
	return fmt.Sprintf("full at %d MiB, the broker %s; %d tries to delete records and a topic without room; records flowed on all partitions %s after room was made: %+v",
		free>>20, end, tries, back.Round(time.Millisecond), y)
}

// leave fills a file system up to some room and returns what to remove.
func leave(t *testing.T, dir string, room int64) string {
	t.Helper()
	path := fillUp(t, dir)
	if err := os.Truncate(path, max(fileSize(t, path)-room, 0)); err != nil {
		t.Fatal(err)
	}
	return path
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestEndureFullDisks: a small disk fills up under load until producers are refused
// with an error that they retry; reading, DeleteRecords and deletion of topics go on;
// whatever becomes of the process then, it serves, also after a start without room;
// and when there is room records flow by themselves, with nothing lost. What the disk
// and the process do is other in each run.
func TestEndureFullDisks(t *testing.T) {
	t.Parallel()
	for i := range rounds(1, 50) {
		ok := t.Run(fmt.Sprint(i), func(t *testing.T) { t.Log(fullDisk(t)) })
		if !ok {
			break
		}
	}
}
