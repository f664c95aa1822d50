package host

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/protocol/record"
)

// harm is what is done to one file.
type harm struct {
	file string
	what string
	at   int
	now  []byte
	gone bool
}

func (h *harm) String() string {
	if h == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s at %d of %s", h.what, h.at, strings.TrimPrefix(h.file, "/data/"))
}

// topics are those whose partitions the file concerns.
func (h *harm) topics() []string {
	if h != nil {
		if dir := path.Base(path.Dir(h.file)); dir != "data" {
			return []string{dir[:1]}
		}
	}
	return []string{"c", "o", "t"}
}

// apply does it, durably.
func (h *harm) apply(t testing.TB, disk *memfs.FS) {
	t.Helper()
	dir := path.Dir(h.file)
	if h.gone {
		if err := disk.Remove(h.file); err != nil {
			t.Fatal(err)
		}
	} else {
		f, err := disk.OpenFile(h.file, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(h.now, 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	if err := disk.SyncDir(dir); err != nil {
		t.Fatal(err)
	}
}

// maker makes the harms of one file, in an order that never changes.
type maker struct {
	file  string
	was   []byte
	yield func(*harm) bool
	more  bool
}

func (m *maker) give(what string, at int, now []byte) {
	if m.more && !bytes.Equal(now, m.was) {
		m.more = m.yield(&harm{file: m.file, what: what, at: at, now: now})
	}
}

// every gives the harms of a file's bytes at positions, its blocks, and as a whole.
func (m *maker) every(positions []int, past [][]byte) {
	for _, p := range positions {
		m.give("cut", p, m.was[:p:p])
		m.zero("zero byte", p, p+1)
		m.zero("zero to the end", p, len(m.was))
		for bit := range 8 {
			b := bytes.Clone(m.was)
			b[p] ^= 1 << bit
			m.give(fmt.Sprint("flip bit ", bit), p, b)
		}
	}
	for _, block := range []int{512, 4096} {
		for p := 0; p < len(m.was); p += block {
			m.zero(fmt.Sprint("zero block of ", block), p, p+block)
		}
	}
	if m.more {
		m.more = m.yield(&harm{file: m.file, what: "gone", gone: true})
	}
	for i, b := range past {
		m.give("stale", i, b)
	}
}

func (m *maker) zero(what string, from, to int) {
	b := bytes.Clone(m.was)
	clear(b[from:min(to, len(b))])
	m.give(what, from, b)
}

// batches gives what can be done to a segment's batches as such.
func (m *maker) batches() {
	all := batchesOf(m.was)
	for i, b := range all {
		at, next := b[0], b[1]
		one := m.was[at:next]
		m.give("duplicate", i, bytes.Join([][]byte{m.was[:next], one, m.was[next:]}, nil))
		m.give("duplicate at the end", i, bytes.Join([][]byte{m.was, one}, nil))
		for j := i + 1; j < len(all); j++ {
			m.give(fmt.Sprint("swap with ", j, ", batch"), i, bytes.Join([][]byte{
				m.was[:at], m.was[all[j][0]:all[j][1]], m.was[next:all[j][0]], one, m.was[all[j][1]:],
			}, nil))
			over := bytes.Clone(m.was[:all[j][0]])
			m.give(fmt.Sprint("instead of ", j, ", batch"), i, append(append(over, one...), m.was[all[j][1]:]...))
		}
	}
}

// batchesOf is where batches lie in a segment, up to what is none.
func batchesOf(b []byte) (all [][2]int) {
	for at := 0; len(b)-at >= record.HeaderSize; {
		size := int(record.SizeOf(b[at:]))
		if size < record.HeaderSize || at+size > len(b) {
			break
		}
		all = append(all, [2]int{at, at + size})
		at += size
	}
	return all
}

// headers are the positions of the headers of a segment's first, middle and last
// batch, and of its first records.
func headers(b []byte) (positions []int) {
	all := batchesOf(b)
	if len(all) == 0 {
		return nil
	}
	done := map[int]bool{}
	for _, i := range []int{0, len(all) / 2, len(all) - 1} {
		for p := all[i][0]; p < min(all[i][0]+record.HeaderSize+2, all[i][1]) && !done[all[i][0]]; p++ {
			positions = append(positions, p)
		}
		done[all[i][0]] = true
	}
	return positions
}

// harms gives everything that is done to a disk: every byte of the headers of
// batches in the first, middle and last segment, every byte of all other files.
func (u *ruin) harms(t testing.TB, yield func(*harm) bool) {
	past := u.scene.past
	chosen := map[string]bool{}
	for _, topic := range []string{"c", "t"} {
		files := segmentFiles(t, u.disk, "/data/"+topic+"-0")
		for _, i := range []int{0, len(files) / 2, len(files) - 2, len(files) - 1} {
			chosen[files[max(i, 0)]] = true
		}
	}
	for _, f := range filesUnder(t, u.disk, "/data") {
		m := &maker{file: f, was: contentOf(t, u.disk, f), yield: yield, more: true}
		dir := path.Base(path.Dir(f))
		switch {
		case dir == "o-0":
			continue
		case strings.Contains(path.Base(f), ".log") && !strings.HasSuffix(f, checkpoint.LogStartFile):
			if chosen[f] {
				m.every(headers(m.was), past[f])
				m.batches()
			}
		default:
			m.every(positionsUpTo(len(m.was)), past[f])
		}
		if !m.more {
			return
		}
	}
	if f := "/data/" + checkpoint.CleanShutdownFile; u.end != "stop" {
		m := &maker{file: f, yield: yield, more: true}
		for i, b := range past[f] {
			m.give("stale", i, b)
		}
	}
}

func positionsUpTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// nearTheWrite gives harms of the file that the life was changing: around where it
// was written to.
func (u *ruin) nearTheWrite(t testing.TB, yield func(*harm) bool) {
	f := u.scene.op.Path
	b, err := u.disk.Content(f)
	if err != nil || len(b) == 0 || !strings.HasPrefix(f, "/data/") {
		return
	}
	m := &maker{file: f, was: b, yield: yield, more: true}
	end := len(b) - 1
	at := min(int(u.scene.op.Offset), end)
	done := map[int]bool{}
	var positions []int
	for _, p := range []int{0, end / 2, max(at-1, 0), at, min(at+8, end), min(at+15, end), min(at+20, end), min(at+60, end), end} {
		if !done[p] {
			positions = append(positions, p)
		}
		done[p] = true
	}
	m.every(positions, u.scene.past[f])
	if strings.Contains(path.Base(f), ".log") {
		m.batches()
	}
}
