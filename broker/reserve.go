package broker

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// A controller begins each life with a new term, which it must store before it does
// anything else. On a disk without a free block it could not, and a node that is its
// own quorum would serve nothing until somebody makes room. So room is set aside in a
// file of zeros. A start that finds little gives it up, before it writes anything;
// what is left is set aside again before clients are let in, who would take it all.
// What makes room, a DeleteTopics or a DeleteRecords, gets a part of it to be stored in.

const (
	// reserveFile lies in the log directory of the metadata.
	reserveFile = ".tidemark_reserve"
	// reserveMax is its size in bytes: the start's small files, twice for a moment
	// each, and the chunk that the metadata log asks for. A small disk gives less.
	reserveMax = 1 << 20
	// reservePart is the part of a disk that is given at most.
	reservePart = 64
	// reserveStep is what is given up for one change that makes room.
	reserveStep = 64 << 10
	// reserveAgain is how soon it is tried to make up for that.
	reserveAgain = model.Instant(10e9)
)

// reserve is the file. It is in use between keep and the node's end; the simulator's
// nodes never use it.
type reserve struct {
	b *Broker

	mu   sync.Mutex
	used bool
}

// reserveSize returns the size of the reserve on a disk of total bytes.
func reserveSize(total int64) int64 { return min(reserveMax, total/reservePart) }

func (r *reserve) path() string { return filepath.Join(r.b.config.MetadataDir, reserveFile) }

// spend gives the reserve up if the disk has less than that left.
func (r *reserve) spend() {
	fs, dir := r.b.fs, r.b.config.MetadataDir
	free, total, err := fs.Free(dir)
	if err != nil || free >= reserveSize(total) {
		return
	}
	// A process that runs there keeps what it has; the start is about to be refused.
	if locked, err := fs.Locked(filepath.Join(dir, ".lock")); err != nil || locked {
		return
	}
	if err := fs.Remove(r.path()); err == nil {
		r.b.logger.Warn("the disk is full: the room that was set aside for a start is used", zap.Int64("free_bytes", free))
	}
}

// keep sets room aside, or as much of it as there is, and begins to use it.
func (r *reserve) keep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = true
	r.grow()
}

// grow makes the file as large as there is room for. The caller holds the lock.
func (r *reserve) grow() (full bool) {
	_, total, err := r.b.fs.Free(r.b.config.MetadataDir)
	if err != nil {
		return true // a disk that can't say gets none
	}
	err = fillTo(r.b.fs, r.path(), reserveSize(total))
	if err != nil && !vfs.IsNoSpace(err) {
		r.b.logger.Warn("no room can be set aside for a start on a full disk", zap.Error(err))
	}
	return err == nil
}

// give gives a part of the reserve up, for a change that makes room in a log
// directory, and reports whether there was any.
func (r *reserve) give(dir string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.used || dir != r.b.config.MetadataDir {
		return false
	}
	f, err := r.b.fs.OpenFile(r.path(), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size == 0 || f.Truncate(max(size-reserveStep, 0)) != nil {
		return false
	}
	r.b.rt.SetDeadline(r, r.b.rt.Now().Mono+reserveAgain)
	return true
}

// TickAt is called on the timers' goroutine, which must not wait.
func (r *reserve) TickAt(model.Now) { r.b.rt.Spare(r) }

// Deliver makes up for what was given, once there is room for more than that.
func (r *reserve) Deliver(model.Now) {
	if r.b.halting.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	free, total, err := r.b.fs.Free(r.b.config.MetadataDir)
	if err == nil && (free < 4*reserveSize(total) || !r.grow()) {
		r.b.rt.SetDeadline(r, r.b.rt.Now().Mono+reserveAgain)
	}
}

var (
	_ loop.Ticker   = (*reserve)(nil)
	_ loop.Delivery = (*reserve)(nil)
)

// fillTo appends zeros to a file until it has a size.
func fillTo(fs vfs.FS, name string, size int64) error {
	f, err := fs.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	at, err := f.Size()
	zeros := make([]byte, 16<<10)
	for err == nil && at < size {
		var n int
		n, err = f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at)
		at += int64(n)
	}
	return errors.Join(err, f.Close())
}
