package host

import (
	"path/filepath"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/model"
)

// retiredDir is the directory of a deleted partition that waits for its removal.
type retiredDir struct {
	dir  *Dir
	name string
	at   model.Instant
}

// retire has a renamed directory removed after a delay (file.delete.delay.ms):
// readers of the deleted log finish, and an operator has a moment to change
// their mind.
func (m *ReplicaManager) retire(d *Dir, name string, delay model.Instant) {
	m.retiredMu.Lock()
	m.retired = append(m.retired, retiredDir{d, name, m.deps.RT.Now().Mono + delay})
	m.retiredMu.Unlock()
}

// removeRetired removes what has waited long enough in a directory.
func (m *ReplicaManager) removeRetired(d *Dir) {
	now := m.deps.RT.Now().Mono
	m.retiredMu.Lock()
	var due []retiredDir
	keep := m.retired[:0]
	for _, r := range m.retired {
		if r.dir == d && r.at <= now {
			due = append(due, r)
		} else {
			keep = append(keep, r)
		}
	}
	m.retired = keep
	m.retiredMu.Unlock()
	for _, r := range due {
		if !r.dir.Online() {
			continue
		}
		if err := r.dir.fs.RemoveAll(filepath.Join(r.dir.path, r.name)); err != nil {
			m.logger.Warn("deleted partition's directory not removed", zap.String("dir", r.dir.path),
				zap.String("name", r.name), zap.Error(err))
		}
	}
}
