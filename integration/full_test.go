package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallDisk mounts an ext4 file system of some MiB and unmounts it with the test.
func smallDisk(t *testing.T, mib string) string {
	t.Helper()
	if os.Getuid() != 0 {
		needRoot(t, "mounting a small disk needs root")
	}
	base := t.TempDir()
	img, dir := filepath.Join(base, "disk.img"), filepath.Join(base, "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		{"truncate", "-s", mib + "M", img},
		{"mkfs.ext4", "-q", "-m", "0", img},
		{"mount", "-o", "loop", img, dir},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			needRoot(t, "%v: %v: %s", argv, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// fillUp takes the last byte of a file system and returns what to remove.
func fillUp(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4096, 512} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return path
}

// ballast fills a file system up to some room and returns what to remove.
func ballast(t *testing.T, dir string, size int64) string {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFullDisk: producers are refused with an error that they retry, readers go
// on, freed space brings writes back, a start on the full disk works, and
// nothing acknowledged is lost over all of it.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "64")
	heavy := ballast(t, disk, 20<<20)
	n := newNodeIn(t, filepath.Join(disk, "data"))
	n.start()
	n.topic("fills", 2, "segment.bytes=4194304")
	a, b := tp{"fills", 0}, tp{"fills", 1}
	acked := map[tp]int64{}
	cl := n.client()
	defer func() { cl.Close() }()
	produce := func(p tp) int16 {
		t.Helper()
		offset, code, err := n.produceOnce(cl, p, batch(4, 50_000))
		if err != nil {
			t.Fatal(err)
		}
		if code == 0 {
			if offset != acked[p] {
				t.Fatalf("%v: offset %d, want %d", p, offset, acked[p])
			}
			acked[p] += 4
		} else if code != 56 {
			t.Fatalf("%v: code %d, want KAFKA_STORAGE_ERROR", p, code)
		}
		return code
	}
	fill := func() {
		t.Helper()
		refused := 0
		for i := 0; refused < 10; i++ {
			if i > 2000 {
				t.Fatal("the disk does not fill")
			}
			if produce([]tp{a, b}[i%2]) != 0 {
				refused++
			} else {
				refused = 0
			}
		}
	}
	readable := func(when string) {
		t.Helper()
		for _, p := range []tp{a, b} {
			if end := n.end(cl, p); end != acked[p] {
				t.Fatalf("%s: %v ends at %d, %d were acknowledged", when, p, end, acked[p])
			}
		}
		got := n.readAll([]tp{a, b})
		for _, p := range []tp{a, b} {
			for i, r := range got[p] {
				if s, err := stampOf(r.Value); err != nil || r.Offset != int64(i) || s.seq != int64(i%4) {
					t.Fatalf("%s: %v offset %d: %+v %v", when, p, r.Offset, s, err)
				}
			}
		}
	}
	fill()
	first := acked[a] + acked[b]
	n.alive()
	readable("full")

	// Space comes back: so do writes, without a restart.
	if err := os.Truncate(heavy, 10<<20); err != nil {
		t.Fatal(err)
	}
	freed := time.Now()
	eventually(t, 15*time.Second, "writes are back after space was freed", func() bool { return produce(a) == 0 && produce(b) == 0 })
	back := time.Since(freed)
	fill()
	if acked[a]+acked[b] <= first+8 {
		t.Errorf("%d records fit into ten more MiB", acked[a]+acked[b]-first)
	}
	readable("full again")

	// Killed and started on the full disk.
	n.p.Kill()
	n.start()
	cl.Close()
	cl = n.client()
	readable("started on the full disk")
	produce(a) // refused or not: never wrong
	if err := os.Remove(heavy); err != nil {
		t.Fatal(err)
	}
	eventually(t, 15*time.Second, "writes are back after a start on the full disk", func() bool { return produce(a) == 0 && produce(b) == 0 })
	readable("at the end")
	n.stop()
	n.start()
	cl.Close()
	cl = n.client()
	readable("after a clean stop")
	t.Logf("%d records of 50 kB, writes were back %s after space was freed", acked[a]+acked[b], back.Round(time.Millisecond))
}

// TestFullDiskAtStop: a clean stop on a full disk ends, and the next start has
// everything.
func TestFullDiskAtStop(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "48")
	n := newNodeIn(t, filepath.Join(disk, "data"))
	n.start()
	n.topic("fills", 1)
	cl := n.client()
	defer func() { cl.Close() }()
	p, acked := tp{"fills", 0}, int64(0)
	for refused := 0; refused < 5; {
		_, code, err := n.produceOnce(cl, p, batch(8, 60_000))
		if err != nil {
			t.Fatal(err)
		}
		if code == 0 {
			acked += 8
		} else {
			refused++
		}
	}
	before := time.Now()
	if err := n.p.Stop(30 * time.Second); err != nil {
		t.Logf("a stop on a full disk: %v", err)
	}
	t.Logf("stopped on a full disk in %s", time.Since(before).Round(time.Millisecond))
	n.start()
	cl.Close()
	cl = n.client()
	if end := n.end(cl, p); end != acked {
		t.Errorf("the log ends at %d, %d were acknowledged", end, acked)
	}
}

// TestHangingDisk: a disk that does not answer gives its partitions up; the rest
// of the broker answers, and the partitions are back with the disk.
func TestHangingDisk(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("fsfreeze"); err != nil {
		needRoot(t, "no fsfreeze (apt-get install util-linux)")
	}
	disk := smallDisk(t, "48")
	freeze := func(how string) error {
		out, err := exec.Command("fsfreeze", how, disk).CombinedOutput()
		if err != nil {
			return fmt.Errorf("fsfreeze %s: %w: %s", how, err, out)
		}
		return nil
	}
	sound := t.TempDir()
	hangs := filepath.Join(disk, "log")
	n := newNode(t, "log.dirs="+filepath.Join(sound, "log")+","+hangs, "metadata.log.dir="+filepath.Join(sound, "log"), "tidemark.io.stall.timeout.ms=1000", "broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500")
	n.start()
	n.topic("spread", 8)
	var there, here []tp
	for i := range int32(8) {
		if _, err := os.Stat(filepath.Join(hangs, fmt.Sprintf("spread-%d", i))); err == nil {
			there = append(there, tp{"spread", i})
		} else {
			here = append(here, tp{"spread", i})
		}
	}
	if len(there) == 0 || len(here) == 0 {
		t.Fatalf("%d partitions on the one disk, %d on the other", len(there), len(here))
	}
	if err := freeze("-f"); err != nil {
		needRoot(t, "%v", err)
	}
	frozen := true
	defer func() {
		if frozen {
			if err := freeze("-u"); err != nil {
				t.Error(err)
			}
		}
	}()
	cl := n.client()
	defer cl.Close()
	// The write that hangs takes its connection with it once the time-out has
	// passed; whoever asks from then on is answered at once.
	start := time.Now()
	_, code, err := n.produceOnce(cl, there[0], batch(1, 100))
	if err == nil && code != 56 {
		t.Errorf("produce to a disk that hangs: code %d, want a closed connection or KAFKA_STORAGE_ERROR", code)
	}
	if took := time.Since(start); took < 500*time.Millisecond || took > 8*time.Second {
		t.Errorf("answered after %s, the time-out is 1s", took)
	}
	start = time.Now()
	if _, code, err := n.produceOnce(cl, there[0], batch(1, 100)); err != nil || code != 56 {
		t.Errorf("the next produce: code %d, %v; want KAFKA_STORAGE_ERROR", code, err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("the next produce was answered after %s", took)
	}
	pause(5 * time.Second) // longer than the broker's session with its controller
	n.alive()
	for _, p := range here {
		if _, code, err := n.produceOnce(cl, p, batch(1, 100)); err != nil || code != 0 {
			t.Errorf("%v on the other disk: code %d, %v", p, code, err)
		}
	}
	if err := freeze("-u"); err != nil {
		t.Fatal(err)
	}
	frozen = false
	eventually(t, 15*time.Second, "the partition is back", func() bool {
		_, code, err := n.produceOnce(cl, there[0], batch(1, 100))
		return err == nil && code == 0
	})
	n.stop()
}

// TestFullDiskOfAFollower: a follower whose disk is full leaves the ISR of the
// partitions there, whose records flow on, and is back when there is space.
func TestFullDiskOfAFollower(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "64")
	heavy := ballast(t, disk, 50<<20)
	sound := filepath.Join(t.TempDir(), "sound")
	c := startCluster(t, clusterSpec{set: []string{"replica.lag.time.max.ms=2000"},
		own: map[int][]string{3: {"log.dirs=" + sound + "," + filepath.Join(disk, "log"), "metadata.log.dir=" + sound}}})
	parts := c.create("fills", 4, []int32{1, 2, 3}, "segment.bytes=1048576")
	var there []tp
	for _, p := range parts {
		c.awaitISR(p, 3)
		if _, err := os.Stat(filepath.Join(disk, "log", fmt.Sprintf("%s-%d", p.topic, p.n))); err == nil {
			there = append(there, p)
		}
	}
	if len(there) == 0 || len(there) == len(parts) {
		t.Fatalf("%d of %d partitions are on the small disk", len(there), len(parts))
	}
	w := c.work(parts, workSpec{idempotent: 2, consumers: 1, size: 4000, every: 5 * time.Millisecond})
	for _, p := range there {
		c.await(p, 90*time.Second, "the replica on the full disk has left the ISR", func(s state) bool { return len(s.isr) == 2 })
	}
	w.flowsEverywhere()
	if !c.members[2].running() {
		t.Fatal("the node with the full disk ended")
	}
	for _, p := range parts {
		if !slices.Contains(there, p) {
			c.awaitISR(p, 3)
		}
	}
	w.quiet() // what is there must fit
	if err := os.Remove(heavy); err != nil {
		t.Fatal(err)
	}
	freed := time.Now()
	for _, p := range there {
		c.awaitISR(p, 3)
	}
	t.Logf("in sync %s after space was freed", time.Since(freed).Round(time.Millisecond))
	w.check()
}

// TestFullDiskOfAVoter: a node whose metadata log meets a full disk stays up. It
// gives up the active controller's office if it had it, learns what the others
// decide and leads partitions by it, and votes again when there is space.
func TestFullDiskOfAVoter(t *testing.T) {
	t.Parallel()
	own := map[int][]string{}
	disks := map[int]string{}
	for id := 1; id <= 3; id++ {
		disks[id] = smallDisk(t, "24")
		own[id] = []string{"metadata.log.dir=" + filepath.Join(disks[id], "meta")}
	}
	c := startCluster(t, clusterSpec{own: own})
	w := c.work(c.create("before", 3, nil), workSpec{idempotent: 2, consumers: 1, every: 5 * time.Millisecond})
	full := c.awaitController()
	said := func(what string) bool { return strings.Contains(full.p.Stderr.String(), what) }
	heavy := fillUp(t, disks[full.id])
	n := 0
	eventually(t, 60*time.Second, "the voter on the full disk stands aside", func() bool {
		n++
		c.create(fmt.Sprintf("more-%d", n), 1, nil)
		return said("no room for the metadata log")
	})
	other := c.awaitController(int32(full.id))
	t.Logf("aside after %d topics, node %d is the controller", n, other.id)
	var rest []int32
	for id := int32(1); id <= 3; id++ {
		if id != int32(full.id) {
			rest = append(rest, id)
		}
	}
	led := c.create("led-there", 2, append([]int32{int32(full.id)}, rest...))
	for _, p := range led {
		if s := c.awaitISR(p, 3); s.leader != int32(full.id) {
			t.Errorf("%v is led by node %d", p, s.leader)
		}
	}
	during := c.work(led, workSpec{idempotent: 1, consumers: 1, every: 5 * time.Millisecond})
	during.flowsEverywhere()
	during.check()
	w.flowsEverywhere()
	if !full.running() {
		t.Fatal("the node with the full disk ended")
	}
	if err := os.Remove(heavy); err != nil {
		t.Fatal(err)
	}
	freed := time.Now()
	eventually(t, 30*time.Second, "it votes again", func() bool { return said("there is room for metadata again") })
	t.Logf("a voter again %s after space was freed", time.Since(freed).Round(time.Millisecond))
	// With another one gone its vote is needed.
	other.kill()
	c.create("after", 1, []int32{int32(full.id)})
	other.start()
	w.check()
}

// TestHangingDiskOfOneNode: while one of a node's two disks does not answer, its
// partitions there are led by others, those on the other disk stay in sync and are
// led, and new topics come there too. All is as before when the disk answers again.
func TestHangingDiskOfOneNode(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("fsfreeze"); err != nil {
		needRoot(t, "no fsfreeze (apt-get install util-linux)")
	}
	disk := smallDisk(t, "64")
	sound := filepath.Join(t.TempDir(), "sound")
	c := startCluster(t, clusterSpec{set: []string{"replica.lag.time.max.ms=3000", "tidemark.io.stall.timeout.ms=1000"},
		own: map[int][]string{3: {"log.dirs=" + sound + "," + filepath.Join(disk, "log"), "metadata.log.dir=" + sound}}})
	parts := slices.Concat(c.create("here", 4, []int32{3, 1, 2}), c.create("elsewhere", 4, []int32{1, 2, 3}))
	var there, others []tp
	for _, p := range parts {
		c.awaitISR(p, 3)
		if _, err := os.Stat(filepath.Join(disk, "log", fmt.Sprintf("%s-%d", p.topic, p.n))); err == nil {
			there = append(there, p)
		} else {
			others = append(others, p)
		}
	}
	if len(there) == 0 || len(others) == 0 {
		t.Fatalf("%d of %d partitions are on the disk", len(there), len(parts))
	}
	w := c.work(parts, workSpec{idempotent: 2, consumers: 1, every: 5 * time.Millisecond})
	w.flowsEverywhere()
	freeze := func(how string) {
		if out, err := exec.Command("fsfreeze", how, disk).CombinedOutput(); err != nil {
			needRoot(t, "fsfreeze %s: %v: %s", how, err, out)
		}
	}
	freeze("-f")
	frozen := true
	defer func() {
		if frozen {
			freeze("-u")
		}
	}()
	for _, p := range there {
		c.await(p, 60*time.Second, "the replica on the hanging disk neither leads nor is in sync", func(s state) bool {
			return s.leader != 3 && len(s.isr) == 2
		})
	}
	w.flowsEverywhere()
	for i := range 4 {
		for _, p := range c.create(fmt.Sprintf("new-%d", i), 1, []int32{3, 1, 2}) {
			if s := c.awaitISR(p, 3); s.leader != 3 {
				t.Errorf("%v is led by node %d", p, s.leader)
			}
		}
	}
	for _, p := range others {
		if s := c.awaitISR(p, 3); p.topic == "here" && s.leader != 3 {
			t.Errorf("%v on the disk that answers is led by node %d", p, s.leader)
		}
	}
	if !c.members[2].running() {
		t.Fatal("the node ended")
	}
	freeze("-u")
	frozen = false
	for _, p := range parts {
		c.awaitISR(p, 3)
	}
	w.check()
}
