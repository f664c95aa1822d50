package quorum

import (
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
