package memfs

import (
	"syscall"
)

// Durable is a look at what a power loss now would leave of a disk at least:
// nothing but what was synced. It sees the disk as it is at each call.
type Durable struct{ fs *FS }

// Durable returns the look at what is synced.
func (fs *FS) Durable() Durable { return Durable{fs} }

// List returns the base names in a directory, sorted.
func (d Durable) List(dir string) ([]string, error) {
	d.fs.mu.RLock()
	defer d.fs.mu.RUnlock()
	n, err := d.find("list", dir)
	if err != nil {
		return nil, err
	}
	if !n.isDir() {
		return nil, pathError("list", dir, syscall.ENOTDIR)
	}
	names := make([]string, 0, len(n.synced))
	for _, name := range n.listed {
		if n.synced[name] != nil {
			names = append(names, name)
		}
	}
	if len(names) < len(n.synced) { // some are gone for readers
		return sortedNames(n.synced), nil
	}
	return names, nil
}

// Content returns all bytes of a file, under the terms of FS.Content.
func (d Durable) Content(name string) ([]byte, error) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	n, err := d.find("read", name)
	if err != nil {
		return nil, err
	}
	if n.isDir() {
		return nil, pathError("read", name, syscall.EISDIR)
	}
	return n.durable(), nil
}

func (d Durable) find(op, name string) (*node, error) {
	if d.fs.dead {
		return nil, pathError(op, name, ErrDead)
	}
	return d.fs.root.walk(op, name, clean(name), synced)
}
