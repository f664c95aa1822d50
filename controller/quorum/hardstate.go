package quorum

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/tidemark/tidemark/internal/vfs"
	"go.etcd.io/raft/v3/raftpb"
)

// hardStateFile holds term, vote and a lower bound of the commit index. It is
// the last thing that a bootstrap writes: without it nothing was promised.
const hardStateFile = "quorum-state"

const hardStateVersion = 1

// hardState is the content of hardStateFile. Numbers of 64 bits are strings, so
// that no JSON reader rounds them.
type hardState struct {
	Version int    `json:"version"`
	Term    uint64 `json:"term,string"`
	Vote    uint64 `json:"vote,string"`
	Commit  uint64 `json:"commit,string"`
	CRC     uint32 `json:"crc32c"`
}

// checksum covers every other field.
func (h hardState) checksum() uint32 {
	s := fmt.Sprintf("%d %d %d %d", h.Version, h.Term, h.Vote, h.Commit)
	return crc32.Checksum([]byte(s), crc32.MakeTable(crc32.Castagnoli))
}

func (h hardState) raft() *raftpb.HardState {
	return &raftpb.HardState{Term: new(h.Term), Vote: new(h.Vote), Commit: new(h.Commit)}
}

// errNoHardState: the file is not there.
var errNoHardState = errors.New("no " + hardStateFile)

// readHardState reads the file of dir. A missing one is errNoHardState.
func readHardState(fs vfs.FS, dir string) (hardState, error) {
	var h hardState
	name := filepath.Join(dir, hardStateFile)
	b, err := vfs.ReadFile(fs, name)
	if errors.Is(err, os.ErrNotExist) {
		return h, errNoHardState
	}
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(b, &h); err != nil {
		return hardState{}, fmt.Errorf("%s: %w", name, err)
	}
	if h.Version != hardStateVersion || h.CRC != h.checksum() {
		return hardState{}, fmt.Errorf("%s: version %d, crc %08x, content hashes to %08x", name, h.Version, h.CRC, h.checksum())
	}
	return h, nil
}

// writeHardState replaces the file of dir durably.
func writeHardState(fs vfs.FS, dir string, h hardState) error {
	h.Version = hardStateVersion
	h.CRC = h.checksum()
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := vfs.WriteFileAtomic(fs, filepath.Join(dir, hardStateFile), append(b, '\n')); err != nil {
		return fmt.Errorf("write term %d vote %x: %w", h.Term, h.Vote, err)
	}
	return nil
}
