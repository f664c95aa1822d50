package dump

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/tidemark/tidemark/internal/vfs"
)

// Options choose what is shown and how.
type Options struct {
	// JSON writes one object a line instead of text.
	JSON bool
	// Deep shows the records of each batch, not only its header.
	Deep bool
	// Data shows keys and values of records as well. It implies Deep.
	Data bool
}

// FoundError says that a file could be read and that something in it is wrong.
// The findings themselves are in the output.
type FoundError struct {
	Path  string
	Count int // findings, at least 1
}

// Error implements error.
func (e *FoundError) Error() string { return e.Path + ": " + count(e.Count) }

// ErrUnknownKind is returned for a file whose name is that of no kind of file
// that a log directory holds.
var ErrUnknownKind = errors.New("not a file of a log directory")

// Run dumps files one after the other; a directory stands for all files in it
// that are of a known kind. found says that something in them is wrong. err
// joins what could not be read at all; the other files are shown regardless.
func Run(fs vfs.FS, files []string, o Options, stdout io.Writer) (found bool, err error) {
	var failures []error
	for _, path := range files {
		list, err := expand(fs, path)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		for _, path := range list {
			err := File(fs, path, o, stdout)
			var f *FoundError
			if errors.As(err, &f) {
				found = true
			} else if err != nil {
				failures = append(failures, err)
			}
		}
	}
	return found, errors.Join(failures...)
}

// File dumps one file. A *FoundError says that something in it is wrong; any
// other error that it could not be read, or w not be written.
func File(fs vfs.FS, path string, o Options, w io.Writer) error {
	k := kindOf(filepath.Base(path))
	if k.show == nil {
		return fmt.Errorf("%s: %w", path, ErrUnknownKind)
	}
	d := &dumper{fs: fs, path: path, name: k, deep: o.Deep || o.Data, data: o.Data}
	d.out = printer{w: bufio.NewWriter(w), json: o.JSON}
	d.out.head(path, k)
	if err := k.show(d); err != nil {
		d.out.flush()
		return fmt.Errorf("dump %s: %w", path, err)
	}
	d.out.tail(path)
	if err := d.out.flush(); err != nil {
		return err
	}
	if d.out.findings > 0 {
		return &FoundError{Path: path, Count: d.out.findings}
	}
	return nil
}

// dumper is one dump of one file.
type dumper struct {
	fs         vfs.FS
	path       string
	name       kind
	deep, data bool
	out        printer
}

// sibling returns the path of the file of the same segment, in the same state,
// with another suffix.
func (d *dumper) sibling(suffix string) string {
	name := fmt.Sprintf("%020d%s%s", int64(d.name.base), suffix, d.name.state)
	return filepath.Join(filepath.Dir(d.path), name)
}

// expand returns the files that a path stands for.
func expand(fs vfs.FS, path string) ([]string, error) {
	info, err := fs.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir {
		return []string{path}, nil
	}
	names, err := fs.List(path)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, name := range names {
		if kindOf(name).show != nil {
			list = append(list, filepath.Join(path, name))
		}
	}
	return list, nil
}
