package host

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/partition"
)

// asideDir is the directory of a spoilt partition that was set aside.
type asideDir struct {
	dir  *Dir
	name string
	id   model.TopicIDPartition
	tp   model.TopicPartition
	// highWatermark is what the spoilt replica knew last.
	highWatermark model.Offset
	// refused: the disk had refused it. half: it was being filled anew itself, and had
	// not been in sync again.
	refused, half bool

	// leaving: it is on its way to the kept bytes. kept: there is a receipt of it. again
	// is when that is tried again, after a wait, if it did not come there.
	leaving, kept bool
	again, wait   model.Instant
}

// findAside takes over a directory that an earlier process has set aside.
func (m *ReplicaManager) findAside(d *Dir, dirName string, tp model.TopicPartition, highWatermark model.Offset) {
	names, err := d.fs.List(filepath.Join(d.path, dirName))
	if err != nil {
		return
	}
	for _, n := range names {
		if refused := n == log.FailedNote; refused || strings.HasSuffix(n, log.DamagedSuffix) {
			f := &foundDir{dir: d, name: dirName, tp: tp, id: model.TopicIDPartition{Partition: tp.Partition}}
			f.readMetadata()
			if f.reason == "" && !f.blank {
				m.asides = append(m.asides, &asideDir{dir: d, name: dirName, id: f.id, tp: tp, highWatermark: highWatermark, refused: refused})
				m.without.Add(1)
			}
			return
		}
	}
}

// isAside says whether something of a partition was set aside and is to stay until it
// is in sync again.
func (m *ReplicaManager) isAside(id model.TopicIDPartition) bool {
	return slices.ContainsFunc(m.asides, func(a *asideDir) bool { return a.id == id && !a.leaving })
}

// partAsides gives up what was set aside of the replicas that are in sync again, and
// what never was in sync at once: a disk that fails time and again is not filled with
// what it was given each time.
func (m *ReplicaManager) partAsides() {
	left := m.asides[:0]
	for _, a := range m.asides {
		reg := m.image.PartitionByID(a.id)
		if reg == nil || !reg.HasReplica(m.deps.Self) || !a.dir.Online() {
			continue // the topic is gone, or the replica: it stays as any stray one does
		}
		left = append(left, a)
		h := m.GetByID(a.id)
		inSync := h != nil && reg.InISR(m.deps.Self) && h.State().Role != partition.Offline
		if a.leaving || !inSync && !a.half || m.deps.RT.Now().Mono < a.again {
			continue
		}
		a.leaving = true
		a.dir.flusher.Submit(&partJob{m: m, a: a, leader: reg.Leader}, false)
	}
	clear(m.asides[len(left):])
	m.asides = left
}

// partJob takes a directory that was set aside to the kept bytes.
type partJob struct {
	m      *ReplicaManager
	a      *asideDir
	leader model.BrokerID
	err    error
}

// Run keeps the files and then removes them.
func (j *partJob) Run() {
	dir := filepath.Join(j.a.dir.path, j.a.name)
	if !j.a.kept {
		r, err := log.DescribeDir(j.a.dir.fs, dir)
		if err != nil {
			j.err = err
			return
		}
		detail := j.a.detail()
		if j.a.refused {
			detail += leaveUnreadable(j.a.dir.fs, &r)
		}
		j.m.keeper().keep(receipt.Subject{
			ID: j.a.id, TP: j.a.tp, Dir: j.a.dir.path, Cause: receipt.Refill, HighWatermark: j.a.highWatermark, Detail: detail,
		}, &r)
		j.a.kept = true
	}
	j.err = j.a.dir.fs.RemoveAll(dir)
}

// detail says why there is a receipt.
func (a *asideDir) detail() string {
	why := "the replica was damaged"
	if a.refused {
		why = "the disk had failed at the replica"
	}
	if a.half {
		return why + " while it was filled anew from the cluster; it had not been in sync"
	}
	return why + ", and was filled anew from the cluster: it is in sync again"
}

// leaveUnreadable takes the files that the disk does not give out of what is to be
// kept: the others are worth keeping. It says which those are.
func leaveUnreadable(fsys vfs.FS, r *log.Removal) (said string) {
	buf := make([]byte, 256<<10)
	r.Parts = slices.DeleteFunc(r.Parts, func(p log.Part) bool {
		err := readThrough(fsys, p.File, buf)
		if err == nil {
			return false
		}
		r.Bytes -= p.Bytes
		said += fmt.Sprintf("; %s can't be read and is not kept (%v)", filepath.Base(p.File), err)
		return true
	})
	return said
}

func readThrough(fsys vfs.FS, path string, buf []byte) error {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for at := int64(0); ; {
		n, err := f.ReadAt(buf, at)
		at += int64(n)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// Done has the list forget it, or try again.
func (j *partJob) Done() {
	forget := func() {
		j.a.leaving = false
		if j.err != nil {
			j.a.wait = min(max(2*j.a.wait, refillWait), refillWaitMax)
			j.a.again = j.m.deps.RT.Now().Mono + j.a.wait
			j.m.logger.Warn("a spoilt partition's files are left", zap.Stringer("partition", j.a.tp), zap.Error(j.err))
			return
		}
		for i, a := range j.m.asides {
			if a == j.a {
				j.m.asides = append(j.m.asides[:i:i], j.m.asides[i+1:]...)
				break
			}
		}
	}
	if j.m.deps.Serial == nil {
		forget()
		return
	}
	j.m.deps.Serial(forget)
}
