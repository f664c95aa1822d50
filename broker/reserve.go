package broker

import (
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/vfs"
)

// A controller begins each life with a new term, which it must store before it does
// anything else. On a disk without a free block it could not, and a node that is its
// own quorum would serve nothing until somebody makes room. So room is set aside in a
// file of zeros. A start that finds little gives it up, before it writes anything;
// what is left is set aside again before clients are let in, who would take it all.

const (
	// reserveFile lies in the log directory of the metadata.
	reserveFile = ".tidemark_reserve"
	// reserveMax is its size in bytes: the start's small files, twice for a moment
	// each, and the chunk that the metadata log asks for. A small disk gives less.
	reserveMax = 1 << 20
	// reservePart is the part of a disk that is given at most.
	reservePart = 64
)

// reserveSize returns the size of the reserve on a disk of total bytes.
func reserveSize(total int64) int64 { return min(reserveMax, total/reservePart) }

// spendReserve gives the reserve up if the disk has less than that left.
func (b *Broker) spendReserve() {
	dir := b.config.MetadataDir
	free, total, err := b.fs.Free(dir)
	if err != nil || free >= reserveSize(total) {
		return
	}
	// A process that runs there keeps what it has; the start is about to be refused.
	if locked, err := b.fs.Locked(filepath.Join(dir, ".lock")); err != nil || locked {
		return
	}
	if err := b.fs.Remove(filepath.Join(dir, reserveFile)); err == nil {
		b.logger.Warn("the disk is full: the room that was set aside for a start is used", zap.Int64("free_bytes", free))
	}
}

// keepReserve sets room aside for the next start, or as much of it as there is.
func (b *Broker) keepReserve() {
	dir := b.config.MetadataDir
	_, total, err := b.fs.Free(dir)
	if err != nil {
		return
	}
	if err := fillTo(b.fs, filepath.Join(dir, reserveFile), reserveSize(total)); err != nil && !vfs.IsNoSpace(err) {
		b.logger.Warn("no room can be set aside for a start on a full disk", zap.Error(err))
	}
}

// fillTo appends zeros to a file until it has a size.
func fillTo(fs vfs.FS, name string, size int64) error {
	f, err := fs.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	at, err := f.Size()
	zeros := make([]byte, 16<<10)
	for err == nil && at < size {
		var n int
		n, err = f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at)
		at += int64(n)
	}
	return err
}
