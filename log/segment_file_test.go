package log

import (
	"os"
	"testing"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
)

// renameHook calls after once a name has changed and before the caller of
// Rename knows.
type renameHook struct {
	vfs.FS
	after func()
}

func (h *renameHook) Rename(from, to string) error {
	err := h.FS.Rename(from, to)
	h.after()
	return err
}

// TestReadersWaitForRenames: between a file's rename and the moment its new name
// is known, nobody may look for it under the old one. A reader whose handle was
// closed would take a truncated segment for a lost one.
func TestReadersWaitForRenames(t *testing.T) {
	hook := &renameHook{FS: memfs.New()}
	if err := hook.MkdirAll("d", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFileAtomic(hook.FS, "d/a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	s := newSegmentFile(hook, NewFileCache(0, 0), "d/a")
	renames := 0
	hook.after = func() {
		renames++
		if s.mu.TryLock() {
			t.Error("a reader could open the file by the name that it no longer has")
			s.mu.Unlock()
		}
	}
	if err := s.rename("d/b"); err != nil {
		t.Fatal(err)
	}
	if err := renameDir(hook, "d", "e", []*segmentFile{s}); err != nil {
		t.Fatal(err)
	}
	if renames != 2 || s.name() != "e/b" {
		t.Errorf("%d renames, the file is %s", renames, s.name())
	}
	if _, err := s.pin(1); err != nil {
		t.Error(err)
	}
	if err := s.rename("no/such/place"); err == nil || s.name() != "e/b" {
		t.Errorf("a failed rename: %v, the file is %s", err, s.name())
	}
	if _, err := hook.Stat("e/b"); err != nil || os.IsNotExist(err) {
		t.Error(err)
	}
}
