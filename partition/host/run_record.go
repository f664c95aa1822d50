package host

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"sync"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
)

// runFile notes, in each log directory, which life of which machine uses it. It
// is ours, beside Kafka's files; see docs/formats/log-directory.md.
const runFile = ".tidemark_run"

// runRecord is the content of a runFile.
type runRecord struct {
	// BootID and Mount name the life of the kernel and the mount in which the
	// process runs.
	BootID string
	Mount  string
	// Stop is the kind of stop that this start found, until the controller has
	// been told: a second crash before that must not hide it.
	Stop log.Stop
	// Told is true once the controller has been told.
	Told bool
	// BrokerEpoch is the last registration, -1 if there was none.
	BrokerEpoch model.BrokerEpoch
	// Heartbeat is the number of the last heartbeat that the controller
	// acknowledged, -1 if none was. A directory restored from a copy has an older
	// one.
	Heartbeat int64
	// Applied is the metadata offset of the newest image that was acted on, -1 if
	// none was. An older one is refused.
	Applied model.Offset
	// Draft is the directory's id as long as there is no meta.properties to hold
	// it, zero afterwards: a first start that dies in between, once others were
	// told, is taken up by the next under the same name. It does not stay, since
	// somebody who wipes a directory may overlook this file.
	Draft checkpoint.DirectoryID
	// Meta is what meta.properties says, once it does. It counts if that is damaged or
	// gone while the directory still holds something, so that it was not wiped.
	Meta checkpoint.MetaProperties
}

// hasMeta says whether the record knows whose the directory is.
func (r *runRecord) hasMeta() bool {
	return r.Meta.ClusterID != "" && r.Meta.DirectoryID != (checkpoint.DirectoryID{})
}

type runJSON struct {
	Version     int    `json:"version"`
	BootID      string `json:"bootId"`
	Mount       string `json:"mount"`
	Stop        string `json:"stop"`
	Told        bool   `json:"told"`
	BrokerEpoch int64  `json:"brokerEpoch"`
	Heartbeat   int64  `json:"heartbeat"`
	Applied     int64  `json:"applied"`
	Draft       string `json:"directoryId,omitempty"`
	// Meta is the node's id, the directory's and the cluster's, in this order.
	Meta []string `json:"meta,omitempty"`
}

// metaJSON and its inverse write a runRecord's Meta.
func metaJSON(m checkpoint.MetaProperties) []string {
	return []string{strconv.Itoa(int(m.NodeID)), m.DirectoryID.String(), m.ClusterID}
}

func metaOf(text []string) (m checkpoint.MetaProperties, ok bool) {
	if len(text) != 3 {
		return m, false
	}
	node, err := strconv.ParseInt(text[0], 10, 32)
	id, err2 := base64.RawURLEncoding.Strict().DecodeString(text[1])
	if err != nil || err2 != nil || len(id) != len(m.DirectoryID) {
		return m, false
	}
	return checkpoint.MetaProperties{NodeID: model.BrokerID(node), DirectoryID: checkpoint.DirectoryID(id), ClusterID: text[2]}, true
}

// readRun reads a runFile. One that is missing or can't be read proves nothing.
func readRun(fs vfs.FS, path string) (runRecord, bool) {
	none := runRecord{Stop: log.StopPower, BrokerEpoch: model.NoBrokerEpoch, Heartbeat: -1, Applied: model.NoOffset}
	text, err := vfs.ReadFile(fs, path)
	if err != nil {
		return none, false
	}
	line, sum, _ := bytes.Cut(text, []byte("\n"))
	var j runJSON
	if json.Unmarshal(line, &j) != nil || j.Version != 1 || len(sum) > 0 && string(sum) != runSum(line) {
		return none, false
	}
	r := runRecord{
		BootID: j.BootID, Mount: j.Mount, Stop: log.StopPower, Told: j.Told,
		BrokerEpoch: model.BrokerEpoch(j.BrokerEpoch), Heartbeat: j.Heartbeat, Applied: model.Offset(j.Applied),
	}
	if j.Draft != "" {
		id, err := base64.RawURLEncoding.Strict().DecodeString(j.Draft)
		if err != nil || len(id) != len(r.Draft) {
			return none, false
		}
		r.Draft = checkpoint.DirectoryID(id)
	}
	if m, ok := metaOf(j.Meta); ok {
		r.Meta = m
	}
	switch j.Stop {
	case log.StopClean.String():
		r.Stop = log.StopClean
	case log.StopProcess.String():
		r.Stop = log.StopProcess
	}
	return r, true
}

func writeRun(fs vfs.FS, path string, r runRecord) error {
	j := runJSON{
		Version: 1, BootID: r.BootID, Mount: r.Mount, Stop: r.Stop.String(), Told: r.Told,
		BrokerEpoch: int64(r.BrokerEpoch), Heartbeat: r.Heartbeat, Applied: int64(r.Applied),
	}
	if r.Draft != (checkpoint.DirectoryID{}) {
		j.Draft = r.Draft.String()
	}
	if r.hasMeta() {
		j.Meta = metaJSON(r.Meta)
	}
	text, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("run record: %w", err)
	}
	return vfs.WriteFileAtomic(fs, path, []byte(string(text)+"\n"+runSum(text)))
}

// runSum is the second line of a runFile, the checksum of the first. A digit that a
// disk has changed would else refuse the start, or have a stop taken for another. A
// file without it is of an earlier version.
func runSum(line []byte) string {
	return fmt.Sprintf("%08x\n", crc32.Checksum(line, crc32.MakeTable(crc32.Castagnoli)))
}

// kindOfStop weighs the evidence of how the process stopped before. A marker
// counts only if it is of the registration that used the directory last. Without
// one, what was written is still there if the same kernel has had the same mount
// all the time. A kind that the controller wasn't told of is kept if it is worse.
func kindOfStop(marker bool, markerEpoch model.BrokerEpoch, last runRecord, known bool, here machineIdentity) log.Stop {
	kind := log.StopPower
	switch {
	case marker && (!known || markerEpoch == last.BrokerEpoch || markerEpoch == model.NoBrokerEpoch):
		kind = log.StopClean
	case marker:
		return log.StopPower // another life's marker: the directory was put together
	case known && here.bootID != "" && here.mount != "" && here.bootID == last.BootID && here.mount == last.Mount:
		kind = log.StopProcess
	}
	if known && !last.Told {
		kind = max(kind, last.Stop)
	}
	return kind
}

// StopReport is what a registration tells the controller of the stop before.
type StopReport struct {
	// Stop is the worst kind over the directories in use.
	Stop log.Stop
	// BrokerEpoch is the registration that the directories were used under last,
	// -1 if unknown.
	BrokerEpoch model.BrokerEpoch
	// Heartbeat is the last acknowledged heartbeat's number, -1 if unknown.
	Heartbeat int64
}

// Report returns how this process's predecessor stopped.
func (ds *Dirs) Report() StopReport {
	r := StopReport{BrokerEpoch: model.NoBrokerEpoch, Heartbeat: -1}
	first := true
	for _, d := range ds.dirs {
		if !d.Online() {
			continue
		}
		r.Stop = max(r.Stop, d.stop)
		if first {
			r.BrokerEpoch, r.Heartbeat = d.run.BrokerEpoch, d.run.Heartbeat
			first = false
			continue
		}
		// Directories that don't agree were not used together last.
		if d.run.BrokerEpoch != r.BrokerEpoch {
			r.Stop = log.StopPower
		}
		r.BrokerEpoch = max(r.BrokerEpoch, d.run.BrokerEpoch)
		r.Heartbeat = min(r.Heartbeat, d.run.Heartbeat)
	}
	return r
}

// Registered notes durably that the controller has given this process an epoch,
// and so has been told how the one before stopped.
func (ds *Dirs) Registered(epoch model.BrokerEpoch) {
	ds.note(func(r *runRecord) { r.BrokerEpoch, r.Told = epoch, true })
	for _, d := range ds.dirs {
		if !d.Online() {
			continue
		}
		if err := d.doubts.told(d); err != nil && !vfs.IsNoSpace(err) {
			d.fail(err)
		}
	}
}

// Heartbeat notes durably that the controller acknowledged heartbeat n. It waits
// for the disks, but passes over a directory whose disk has not answered to a
// note before: heartbeats go on, and only that directory's record stays old.
func (ds *Dirs) Heartbeat(n int64) {
	for _, d := range ds.dirs {
		if !d.runMu.TryLock() {
			continue
		}
		if n > d.beats { // an earlier one may have been kept waiting by another disk
			d.beats = n
			d.note(func(r *runRecord) { r.Heartbeat = n })
		}
		d.runMu.Unlock()
	}
}

func (ds *Dirs) note(change func(*runRecord)) {
	for _, d := range ds.dirs {
		d.runMu.Lock()
		d.note(change)
		d.runMu.Unlock()
	}
}

// note changes the record and writes it. The lock is held.
func (d *Dir) note(change func(*runRecord)) {
	if !d.Online() {
		return
	}
	change(&d.run)
	d.amend()
	if err := writeRun(d.fs, d.file(runFile), d.run); err != nil && !vfs.IsNoSpace(err) {
		d.fail(err)
	}
}

// applied returns the metadata offset of the newest image acted on.
func (ds *Dirs) applied() model.Offset {
	at := model.NoOffset
	for _, d := range ds.dirs {
		if d.Online() {
			at = max(at, d.run.Applied)
		}
	}
	return at
}

// Acted returns the exclusive end of the metadata that was acted on.
func (ds *Dirs) Acted() model.Offset { return ds.applied().Next() }

// noteAppliedIn makes the offset of an acted-on image durable in directories.
func (ds *Dirs) noteAppliedIn(m *ReplicaManager, at model.Offset, dirs ...*Dir) {
	m.onDisks(dirs, func(d *Dir) { d.noteApplied(at) })
}

// noteApplied is the same for one directory; an offset that it knows is not
// written again.
func (d *Dir) noteApplied(at model.Offset) {
	d.runMu.Lock()
	defer d.runMu.Unlock()
	if at > d.run.Applied {
		d.note(func(r *runRecord) { r.Applied = at })
	}
}

// failure latches the first error of a directory.
type failure struct {
	mu  sync.Mutex
	err error
}

func (f *failure) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *failure) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}
