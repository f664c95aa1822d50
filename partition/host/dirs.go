package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/metrics"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
)

// DirOptions say which log directories a process has.
type DirOptions struct {
	FS vfs.FS
	// Paths are the log directories (log.dirs), at least one.
	Paths  []string
	NodeID model.BrokerID
	// ClusterID is the configured cluster id, "" if none is.
	ClusterID string
	Machine   Machine
	// Rand draws directory ids.
	Rand   *rand.Rand
	Logger *zap.Logger
	// Kept keeps what leaves the logs; nil keeps nothing.
	Kept *Keeper
}

// Dirs is the set of log directories of a process. It is opened before anything
// in them is read or written, and closed last.
type Dirs struct {
	o    DirOptions
	dirs []*Dir
}

// Dir is one log directory. A directory whose own files fail goes offline for
// the rest of the process's life; that of one partition's files doesn't matter
// to it.
type Dir struct {
	path string
	fs   vfs.FS
	lock io.Closer

	meta    checkpoint.MetaProperties
	hasMeta bool
	// restore: meta.properties is to be written anew, because it was damaged or gone.
	restore bool
	damage  error // nil if it was gone
	// virgin: there was neither meta.properties nor any partition's directory.
	virgin bool
	stop   log.Stop

	// runMu guards run and is held while it is written.
	runMu sync.Mutex
	run   runRecord
	beats int64 // the newest heartbeat of this process in run
	// distrusted: whatever run is going to say, the next start must take it for one
	// after a loss of power.
	distrusted bool

	// unclean are the partitions that the marker doesn't speak for, uncleanStop what
	// they have been through: power may have gone since the orderly stop.
	unclean     checkpoint.Offsets
	uncleanStop log.Stop
	// marker is the broker epoch in the marker of a clean stop.
	marker model.BrokerEpoch

	flusher   Flusher
	flushes   metrics.Histogram
	failure   failure
	files     checkpointFiles
	keeper    startKeeper
	inventory inventory
	doubts    doubts
	slow      slowLane
	tails     tails
	points    points

	// What follows belongs to who applies images.

	// partitions counts those placed here.
	partitions int
	// behind: an errand has not come back. making are the logs that it makes, and
	// leaving the partitions that are to be taken away when it has.
	behind  bool
	making  *making
	leaving []leaving
}

// ErrForeignDir reports a log directory of another cluster or node. Nothing in
// it was touched.
var ErrForeignDir = errors.New("log directory belongs to another node or cluster")

// OpenDirs locks every log directory, checks that it is this node's, notes how
// the process stopped before, and takes away the markers of a clean stop: from
// here on a crash is a crash. A directory that the disk refuses goes offline if
// another is left; one that is locked or foreign refuses the start.
func OpenDirs(o DirOptions) (*Dirs, error) {
	ds := &Dirs{o: o}
	var last error
	for _, path := range o.Paths {
		d := &Dir{path: path, fs: o.FS, marker: model.NoBrokerEpoch}
		ds.dirs = append(ds.dirs, d)
		err := d.open(&ds.o)
		switch {
		case errors.Is(err, vfs.ErrLocked), errors.Is(err, ErrForeignDir):
			ds.Close()
			return nil, fmt.Errorf("log directory %s: %w", path, err)
		case err != nil:
			last = err
			d.fail(err)
			o.Logger.Error("log directory is offline", zap.String("dir", path), zap.Error(err))
		}
	}
	if err := ds.check(); err != nil {
		ds.Close()
		return nil, err
	}
	for _, d := range ds.dirs {
		if d.Online() {
			if err := d.begin(&ds.o); err != nil {
				last = err
				d.fail(err)
				o.Logger.Error("log directory is offline", zap.String("dir", d.path), zap.Error(err))
			}
		}
	}
	if ds.Online() == 0 {
		ds.Close()
		return nil, fmt.Errorf("no log directory is usable: %w", last)
	}
	return ds, nil
}

// check refuses directories that don't belong together.
func (ds *Dirs) check() error {
	seen := make(map[checkpoint.DirectoryID]string)
	cluster, at := ds.o.ClusterID, "the configuration"
	for _, d := range ds.dirs {
		if !d.hasMeta {
			continue
		}
		if d.meta.NodeID != ds.o.NodeID {
			return fmt.Errorf("%w: %s is of node %d, this is node %d", ErrForeignDir, d.path, d.meta.NodeID, ds.o.NodeID)
		}
		if cluster != "" && d.meta.ClusterID != cluster {
			return fmt.Errorf("%w: %s is of cluster %s, %s says %s", ErrForeignDir, d.path, d.meta.ClusterID, at, cluster)
		}
		cluster, at = d.meta.ClusterID, d.path
		if other, ok := seen[d.meta.DirectoryID]; ok && d.meta.DirectoryID != (checkpoint.DirectoryID{}) {
			return fmt.Errorf("%w: %s and %s have the same directory id %s", ErrForeignDir, other, d.path, d.meta.DirectoryID)
		}
		seen[d.meta.DirectoryID] = d.path
	}
	return nil
}

// errNoRecord: a file of our own is not what we wrote.
var errNoRecord = errors.New("not a whole record")

// open locks and reads; it changes nothing but the lock file.
func (d *Dir) open(o *DirOptions) error {
	if err := d.make(); err != nil {
		return err
	}
	lock, err := o.FS.Lock(filepath.Join(d.path, checkpoint.LockFile))
	if err != nil {
		return err
	}
	d.lock = lock
	d.meta, d.hasMeta, err = checkpoint.ReadMetaProperties(o.FS, d.file(checkpoint.MetaPropertiesFile))
	var bad *checkpoint.FormatError
	damaged := err
	if err != nil && !errors.As(err, &bad) {
		return err
	}
	names, err := o.FS.List(d.path)
	if err != nil {
		return err
	}
	d.virgin = !d.hasMeta && damaged == nil
	for _, name := range names {
		// The metadata's own directory is not a past: a first start may have died
		// between its bootstrap and the writing of meta.properties.
		if tp, _, ok := log.ParseDirName(name); ok && tp.Topic != metadataTopic {
			d.virgin = false
		}
	}
	if d.hasMeta {
		return nil
	}
	last, known := readRun(d.fs, d.file(runFile))
	switch {
	case known && last.hasMeta() && slices.ContainsFunc(names, isPartition):
		d.meta, d.hasMeta, d.restore, d.damage, d.virgin = last.Meta, true, true, damaged, false
		o.Logger.Error("meta.properties is damaged or gone; it is made anew from what the last process noted",
			zap.String("dir", d.path), zap.Error(damaged))
	case damaged != nil:
		return fmt.Errorf("%w: %w", ErrForeignDir, damaged)
	}
	return nil
}

// uncleanFile lists the partitions that were not closed cleanly by an otherwise
// clean stop: damaged ones, and those whose disk had failed. It is in the form of
// Kafka's offset checkpoints, with offsets that mean nothing. See
// docs/formats/log-directory.md.
const uncleanFile = ".tidemark_unclean"

// isPartition says whether a name is that of a partition's directory, the metadata's
// among them.
func isPartition(name string) bool {
	_, _, ok := log.ParseDirName(name)
	return ok
}

// stopOf returns how one partition's log was left. One that the marker doesn't
// speak for is looked at as strictly as after a kill: damage that was found once
// must be found again. One of which an fsync failed may lack what power takes.
func (d *Dir) stopOf(id model.TopicIDPartition, tp model.TopicPartition) log.Stop {
	if d.doubts.has(id) {
		return log.StopPower
	}
	if _, ok := d.unclean[tp]; ok && d.stop == log.StopClean {
		return d.uncleanStop
	}
	return d.stop
}

// make creates the directory if it is not there, and makes its name durable all
// the way up: a name that a power failure takes away takes everything below it.
// One that is there may be of a process that died before it got so far.
func (d *Dir) make() error {
	if err := d.fs.MkdirAll(d.path, 0o755); err != nil {
		return err
	}
	for p := filepath.Clean(d.path); p != filepath.Dir(p); p = filepath.Dir(p) {
		if err := d.fs.SyncDir(filepath.Dir(p)); err != nil {
			// A parent that this process may not open was not made by it.
			if errors.Is(err, fs.ErrPermission) {
				return nil
			}
			return err
		}
	}
	return nil
}

// begin notes how the process stopped before and that it runs again.
func (d *Dir) begin(o *DirOptions) error {
	marker, clean, err := checkpoint.ReadCleanShutdown(d.fs, d.file(checkpoint.CleanShutdownFile))
	var bad *checkpoint.FormatError
	if err != nil && !errors.As(err, &bad) {
		return err
	}
	if clean {
		d.marker = marker.BrokerEpoch
		d.unclean, err = checkpoint.ReadOffsets(d.fs, d.file(uncleanFile))
		clean = err == nil
	}
	if makesNoSense(err) {
		o.Kept.keepFile(d, d.file(uncleanFile), err)
	}
	last, known := readRun(d.fs, d.file(runFile))
	if !known && unreadable(d.fs, d.file(runFile)) {
		o.Kept.keepFile(d, d.file(runFile), errNoRecord)
	}
	here := o.Machine.identity(d.path)
	d.stop = kindOfStop(clean, d.marker, last, known, here)
	d.uncleanStop = kindOfStop(false, d.marker, last, known, here)
	if !d.doubts.read(d) {
		d.stop = log.StopPower
	}
	d.run = runRecord{
		BootID: here.bootID, Mount: here.mount, Stop: d.stop,
		BrokerEpoch: last.BrokerEpoch, Heartbeat: last.Heartbeat, Applied: last.Applied,
	}
	if !known {
		d.run.BrokerEpoch = d.marker
	}
	noID := d.meta.DirectoryID == (checkpoint.DirectoryID{})
	if noID {
		d.meta.DirectoryID = last.Draft
		if last.Draft == (checkpoint.DirectoryID{}) {
			d.meta.DirectoryID = drawDirectoryID(o.Rand)
		}
	}
	if !d.hasMeta {
		d.run.Draft = d.meta.DirectoryID
	} else {
		d.run.Meta = d.meta
	}
	// On a full disk the old record stays; what it proves can only be less. An id
	// must stay what it is once anybody was told of it.
	if err := writeRun(d.fs, d.file(runFile), d.run); err != nil && (d.run.Draft != last.Draft || !vfs.IsNoSpace(err)) {
		return err
	}
	if err := checkpoint.RemoveCleanShutdown(d.fs, d.file(checkpoint.CleanShutdownFile)); err != nil {
		return err
	}
	if err := d.inventory.read(d); err != nil {
		return err
	}
	if !d.inventory.known && unreadable(d.fs, d.file(inventoryFile)) {
		o.Kept.keepFile(d, d.file(inventoryFile), errNoRecord)
	}
	if d.damage != nil {
		o.Kept.keepFile(d, d.file(checkpoint.MetaPropertiesFile), d.damage)
	}
	if d.hasMeta && (noID || d.restore) {
		return checkpoint.WriteMetaProperties(d.fs, d.file(checkpoint.MetaPropertiesFile), d.meta)
	}
	return nil
}

func drawDirectoryID(r *rand.Rand) checkpoint.DirectoryID {
	var id checkpoint.DirectoryID
	binary.BigEndian.PutUint64(id[:8], r.Uint64())
	binary.BigEndian.PutUint64(id[8:], r.Uint64())
	id[6] = id[6]&0x0f | 0x40 // UUID version 4
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Claim makes every directory this node's in cluster: those that have no
// meta.properties get one. A directory of another cluster is refused.
func (ds *Dirs) Claim(clusterID string) error {
	for _, d := range ds.dirs {
		if !d.Online() {
			continue
		}
		if d.hasMeta {
			if d.meta.ClusterID != clusterID {
				return fmt.Errorf("%w: %s is of cluster %s, this is %s", ErrForeignDir, d.path, d.meta.ClusterID, clusterID)
			}
			continue
		}
		d.meta.ClusterID, d.meta.NodeID = clusterID, ds.o.NodeID
		if err := checkpoint.WriteMetaProperties(d.fs, d.file(checkpoint.MetaPropertiesFile), d.meta); err != nil {
			d.fail(err)
			continue
		}
		d.hasMeta = true
		d.runMu.Lock()
		d.note(func(r *runRecord) { r.Draft, r.Meta = checkpoint.DirectoryID{}, d.meta })
		d.runMu.Unlock()
	}
	if ds.Online() == 0 {
		return fmt.Errorf("no log directory is usable: %w", ds.dirs[0].Failure())
	}
	return nil
}

// ClusterID returns the cluster that the directories belong to, or the
// configured one; "" if neither says.
func (ds *Dirs) ClusterID() string {
	for _, d := range ds.dirs {
		if d.hasMeta {
			return d.meta.ClusterID
		}
	}
	return ds.o.ClusterID
}

// Virgin reports that no directory has been used before. A quorum may bootstrap
// only from virgin directories.
func (ds *Dirs) Virgin() bool {
	for _, d := range ds.dirs {
		if !d.virgin {
			return false
		}
	}
	return true
}

// All returns the directories in the configured order.
func (ds *Dirs) All() []*Dir { return ds.dirs }

// Online counts the directories in use.
func (ds *Dirs) Online() int {
	n := 0
	for _, d := range ds.dirs {
		if d.Online() {
			n++
		}
	}
	return n
}

// Close releases the locks.
func (ds *Dirs) Close() {
	for _, d := range ds.dirs {
		if d.lock != nil {
			_ = d.lock.Close()
			d.lock = nil
		}
	}
}

// Path returns where the directory is.
func (d *Dir) Path() string { return d.path }

// ID returns the directory's id. Source: KIP-858.
func (d *Dir) ID() checkpoint.DirectoryID { return d.meta.DirectoryID }

// Stop returns how the process that used the directory before stopped.
func (d *Dir) Stop() log.Stop { return d.stop }

// Online reports whether the directory is in use.
func (d *Dir) Online() bool { return d.failure.get() == nil }

// Failure returns why the directory is offline, nil while it isn't.
func (d *Dir) Failure() error { return d.failure.get() }

func (d *Dir) fail(err error) { d.failure.set(err) }

func (d *Dir) file(name string) string { return filepath.Join(d.path, name) }
