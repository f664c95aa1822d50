package verify

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/producer"
)

// Suffixes of the files that are looked at.
const (
	logSuffix      = ".log"
	indexSuffix    = ".index"
	timeSuffix     = ".timeindex"
	txnSuffix      = ".txnindex"
	sealSuffix     = ".seal"
	snapshotSuffix = ".snapshot"
	damagedSuffix  = ".damaged"
)

// MetadataTopic is the name of the metadata log, which is no topic and has no id.
const MetadataTopic = "__cluster_metadata"

// Report is what is said of one partition's directory.
type Report struct {
	// Dir is its path, Partition what its name says.
	Dir       string
	Partition model.TopicPartition
	// Segments, Batches, Records and Bytes count what was read and is whole.
	Segments                int
	Batches, Records, Bytes int64
	// Start is the base of the first segment, End the offset behind the last
	// whole batch. Equal for an empty log.
	Start, End model.Offset
	// Findings are in the order of the log; More counts those left out.
	Findings []Finding
	More     int
}

// Worst is the highest grade of the findings, Note without any.
func (r *Report) Worst() Grade { return worst(r.Findings) }

// Partition checks one partition's directory. deep decodes the records of every
// batch too. The error is one of the disk: nothing is known of what could not be
// read.
func Partition(files vfs.FS, dir string, deep bool) (*Report, error) {
	names, err := files.List(dir)
	if err != nil {
		return nil, err
	}
	tp, _, _ := log.ParseDirName(filepath.Base(dir))
	p := &pass{
		fs: files, dir: dir, deep: deep, names: make(map[string]bool, len(names)),
		report: &Report{Dir: dir, Partition: tp}, producers: producer.New(),
		lastEpoch: model.NoEpoch,
	}
	for _, name := range names {
		p.names[name] = true
		base, suffix, ok := numbered(name)
		switch {
		case ok && suffix == logSuffix:
			p.bases = append(p.bases, base)
		case ok && suffix == snapshotSuffix:
			p.snapshots = append(p.snapshots, base)
		case ok && suffix == damagedSuffix:
			p.found.add(Note, name, -1, base, "damage of this segment was noted while it was in use")
		case ok && !p.sideOf(names, base, suffix):
			p.found.add(Note, name, -1, model.NoOffset, "there is no segment beside it")
		}
	}
	slices.Sort(p.bases)
	slices.Sort(p.snapshots)
	if err := p.run(); err != nil {
		return nil, err
	}
	p.report.Findings, p.report.More = p.found.list, p.found.more
	return p.report, nil
}

// pass is the work of one Partition.
type pass struct {
	fs     vfs.FS
	dir    string
	deep   bool
	names  map[string]bool
	report *Report
	found  findings

	bases     []model.Offset // of the segments, rising
	snapshots []model.Offset // rising; those before the present batch are done
	producers *producer.StateManager
	// stored is the epoch file, nil if it is missing or bad. wrong is set by
	// the first batch that it is wrong of.
	stored *epoch.Cache
	wrong  bool
	// expected is the least base offset that the next batch may have.
	expected  model.Offset
	lastEpoch model.LeaderEpoch
}

// sideOf reports whether a file belongs to a segment that is there, or is of a
// kind that needs none.
func (p *pass) sideOf(names []string, base model.Offset, suffix string) bool {
	switch suffix {
	case indexSuffix, timeSuffix, txnSuffix, sealSuffix:
		_, ok := slices.BinarySearch(names, name(base, logSuffix))
		return ok
	}
	return true
}

func (p *pass) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pass) run() error {
	if err := p.readEpochs(); err != nil {
		return err
	}
	for i := range p.bases {
		if err := p.segment(i); err != nil {
			return err
		}
	}
	if err := p.metadata(); err != nil {
		return err
	}
	r := p.report
	r.Segments = len(p.bases)
	r.End = p.expected
	if len(p.bases) > 0 {
		r.Start = p.bases[0]
	}
	if err := p.snapshotsBelow(r.End + 1); err != nil {
		return err
	}
	for _, o := range p.snapshots {
		p.found.add(Derived, name(o, snapshotSuffix), -1, o, "it is above the log's end, %d", r.End)
	}
	p.epochsAtEnd()
	return nil
}

// metadata checks partition.metadata. A directory of Kafka's before 2.8 has none, nor
// has one that was never written to.
func (p *pass) metadata() error {
	const file = checkpoint.PartitionMetadataFile
	_, ok, err := checkpoint.ReadPartitionMetadata(p.fs, p.path(file))
	var bad *checkpoint.FormatError
	switch {
	case errors.As(err, &bad):
		p.found.add(Derived, file, -1, model.NoOffset, "%v", bad)
	case err != nil:
		return err
	case !ok && p.report.Batches > 0 && p.report.Partition.Topic != MetadataTopic:
		p.found.add(Note, file, -1, model.NoOffset, "missing or empty: the topic's id is not known")
	}
	return nil
}

// read returns the content of a file beside a segment; false without it.
func (p *pass) read(name string) ([]byte, bool, error) {
	if !p.names[name] {
		return nil, false, nil
	}
	b, err := vfs.ReadFile(p.fs, p.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil // gone since the directory was listed
	}
	return b, err == nil, err
}

// name is that of the file of a kind for an offset.
func name(base model.Offset, suffix string) string {
	digits := strconv.FormatInt(int64(base), 10)
	return strings.Repeat("0", max(0, 20-len(digits))) + digits + suffix
}

// numbered splits such a name.
func numbered(name string) (base model.Offset, suffix string, ok bool) {
	digits, rest, found := strings.Cut(name, ".")
	if !found || len(digits) != 20 {
		return 0, "", false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return 0, "", false
	}
	return model.Offset(n), "." + rest, true
}
