package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tidemark/tidemark/internal/vfs"
)

// appendLine puts a line behind the journal and makes it durable. A line that was
// written in part is taken back, or ended by the next one's.
func (s *Store) appendLine(id int64, line []byte) error {
	if err := s.o.FS.MkdirAll(s.o.Dir, 0o755); err != nil {
		return err
	}
	fresh := s.journal == ""
	if fresh {
		s.journal = journalPrefix + copyName(id) + journalSuffix
	}
	f, err := s.o.FS.OpenFile(filepath.Join(s.o.Dir, s.journal), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		if fresh {
			s.journal = ""
		}
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err != nil || last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	if _, err := f.WriteAt(line, size); err != nil {
		_ = f.Truncate(size) // else the next line ends it
		return err
	}
	if err := f.Sync(); err != nil {
		// What it holds is unknown: another file takes over, under another id.
		name := s.journal
		s.journal = ""
		s.next++
		return fmt.Errorf("sync %s: %s", name, err.Error()) // not wrapped: a full disk is no reason to try this again
	}
	if size == 0 {
		if err := s.o.FS.SyncDir(s.o.Dir); err != nil {
			return err
		}
		if err := s.o.FS.SyncDir(filepath.Dir(s.o.Dir)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	if size+int64(len(line)) > journalBytesMax {
		s.journal = ""
		s.trimJournals()
	}
	return nil
}

// trimJournals removes the oldest journal files beyond the bound.
func (s *Store) trimJournals() {
	names, err := journals(s.o.FS, s.o.Dir)
	if err != nil {
		return
	}
	for len(names) >= journalsMax {
		if s.o.FS.Remove(filepath.Join(s.o.Dir, names[0])) != nil {
			return
		}
		names = names[1:]
	}
}

// journals lists the journal files of a directory, oldest first.
func journals(fsys vfs.FS, dir string) ([]string, error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range names {
		if _, ok := journalName(name); ok {
			found = append(found, name)
		}
	}
	return found, nil
}

// Read returns all receipts in a Store's directory, oldest first, and how many
// lines of the journal make no sense: a process died, or was refused, while it
// wrote them. It changes nothing and needs no running broker.
func Read(fsys vfs.FS, dir string) (list []Receipt, torn int, err error) {
	names, err := journals(fsys, dir)
	if err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		some, bad, err := readJournal(fsys, filepath.Join(dir, name))
		if err != nil {
			return nil, 0, err
		}
		list, torn = append(list, some...), torn+bad
	}
	return list, torn, nil
}

// Decode reads the lines of a journal.
func Decode(text []byte) (list []Receipt, torn int) {
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		text = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var r Receipt
		if !whole || json.Unmarshal(line, &r) != nil || r.ID <= 0 {
			torn++
			continue
		}
		list = append(list, r)
	}
	return list, torn
}

func readJournal(fsys vfs.FS, path string) ([]Receipt, int, error) {
	text, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return nil, 0, err
	}
	list, torn := Decode(text)
	return list, torn, nil
}

// readReceipt reads the receipt beside a copy.
func readReceipt(fsys vfs.FS, path string) (Receipt, error) {
	var r Receipt
	text, err := vfs.ReadFile(fsys, path)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// Holds reports whether the bytes of a receipt are still kept in a Store's
// directory.
func Holds(fsys vfs.FS, dir string, r *Receipt) bool {
	if r.Kept == "" {
		return false
	}
	_, err := fsys.Stat(filepath.Join(dir, r.Kept))
	return err == nil
}
