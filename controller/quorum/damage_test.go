package quorum

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
)

// hurtBytes are what may have become of a file.
func hurtBytes(b []byte) map[string][]byte {
	out := map[string][]byte{}
	for _, at := range []int{0, len(b) / 4, len(b) / 2, len(b) - 1} {
		if at < 0 || len(b) == 0 {
			continue
		}
		flipped, zeroed := append([]byte(nil), b...), append([]byte(nil), b...)
		flipped[at] ^= 0x10
		clear(zeroed[at:])
		out[fmt.Sprintf("flipped at %d", at)] = flipped
		out[fmt.Sprintf("zero from %d", at)] = zeroed
		out[fmt.Sprintf("cut at %d", at)] = append([]byte(nil), b[:at]...)
	}
	return out
}

// TestDamagedMemberEveryWay: whatever has become of one file of a voter, it starts
// and shows what the others have committed; if it can't believe its memory it has
// another name and no vote, and the others go on.
func TestDamagedMemberEveryWay(t *testing.T) {
	const dir = "data/__cluster_metadata-0"
	victim := func(c *cluster) *simNode {
		for _, n := range c.all {
			n.adjust = tinyLog
		}
		c.startAll()
		for range 12 {
			c.commit()
		}
		v := c.at(3)
		v.stop()
		return v
	}
	first := seeded(t, 9, 3)
	names, err := victim(first).disk.List(dir)
	must(t, err)
	starts, strangers := 0, 0
	for _, name := range names {
		path := filepath.Join(dir, name)
		b, err := vfs.ReadFile(first.at(3).disk, path)
		must(t, err)
		ways := hurtBytes(b)
		ways["gone"] = nil
		for way, text := range ways {
			c := seeded(t, 9, 3) // the same course of events up to here
			v := victim(c)
			old := v.dirID
			if way == "gone" {
				must(t, v.disk.Remove(path))
			} else {
				must(t, vfs.WriteFileAtomic(v.disk, path, text))
			}
			v.disk = v.disk.KillClone(memfs.Kill{})
			for range 3 {
				c.commit()
			}
			v.start()
			if !c.until(20_000*ms, func() bool { return v.started }) || v.failed != nil {
				c.check()
				t.Errorf("%s %s: started %v, %v", name, way, v.started, v.failed)
				continue
			}
			if id, _ := v.node.Identity(); id != old || v.node.phase != phaseMember {
				c.gone[old] = true
				strangers++
				if id == old {
					t.Errorf("%s %s: no member, and still %s", name, way, id)
				}
			}
			c.at(1).crash(false)
			c.at(1).start()
			c.settle()
			c.check()
			starts++
		}
	}
	t.Logf("%d starts, %d of them under another name", starts, strangers)
	if strangers == 0 || strangers == starts {
		t.Error("nothing was damaged, or everything harmful")
	}
}

// TestDamageAboveTheStoredCommit: what the node has acted on was in its log, though a
// kill left no newer commit index; a log that has lost it is no torn end.
func TestDamageAboveTheStoredCommit(t *testing.T) {
	fs := newDisk()
	n := startNode(t, settings{fs: fs})
	n.join()
	for i := range 4 {
		n.mustCreate(fmt.Sprint("t", i), 1)
	}
	acted := n.Image().At().Offset.Next()
	for what, hurt := range map[string]func(fs *memfs.FS){
		"flipped": func(fs *memfs.FS) { damage(t, fs, ".log", true, 20) },
		"cut": func(fs *memfs.FS) {
			path := filepath.Join("data/__cluster_metadata-0", damage(t, fs, ".log", true, 20))
			b, err := vfs.ReadFile(fs, path)
			must(t, err)
			must(t, vfs.WriteFileAtomic(fs, path, b[:len(b)/2]))
		},
	} {
		killed := fs.KillClone(memfs.Kill{})
		hurt(killed)
		knows := func(c *Config) { c.Acted = acted }
		var d *damageError
		if err := newTestNode(t, settings{fs: killed, config: knows}).Start(); !errors.As(err, &d) {
			t.Errorf("%s: %v", what, err)
		}
		again := startNode(t, settings{fs: killed, config: knows, recovers: []RecoveredTopic{{Name: "t3", ID: n.Image().Topic("t3").ID, Partitions: []int32{0}}}})
		if len(again.receipts) != 1 || again.Image().Topic("t3") == nil || again.Image().At().Offset < acted {
			t.Errorf("%s: %d receipts, %s", what, len(again.receipts), again.Image().At())
		}
	}
	// One that has acted on all that it has is sound.
	sound := startNode(t, settings{fs: fs.KillClone(memfs.Kill{}), config: func(c *Config) { c.Acted = acted }})
	if len(sound.receipts) != 0 || sound.Image().Topic("t3") == nil {
		t.Error("a sound log was rebuilt")
	}
}
