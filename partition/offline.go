package partition

import (
	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
)

// offline is the role of a replica whose log can't be used, or that was taken
// away. It answers everything with one code and holds nothing.
type offline struct{}

func (offline) kind() Role { return Offline }

func (offline) produce(p *Partition, _ model.Now, m *Produce, out *Output) {
	p.fail(m, p.offlineCode, "", out)
}

func (offline) wait(_ *Partition, _ model.Now, w *FetchWait, out *Output) {
	out.Woken = append(out.Woken, w)
}

func (offline) replicaFetch(p *Partition, _ model.Now, f *ReplicaFetch, out *Output) {
	p.refuseReplica(f, p.offlineCode, out)
}

func (offline) deleteRecords(p *Partition, _ model.Now, d *DeleteRecords, out *Output) {
	p.refuseDelete(d, p.offlineCode, out)
}

func (offline) fetched(p *Partition, _ model.Now, f *Fetched, out *Output) { p.dropFetched(f, out) }

func (offline) alterAnswered(*Partition, model.Now, AlterAnswer, *Output) {}

// written is never reached: Step drops the late completion of a write that the
// loss of the log overtook.
func (offline) written(_ *Partition, _ model.Now, kind WriteKind, _ Written, _ *Output) {
	assert.Unreachable("an offline partition completed write %d", kind)
}

func (offline) flushed(*Partition, model.Now, model.Offset, *Output) {}

func (offline) tick(*Partition, model.Now, *Output) {}
