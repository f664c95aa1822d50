package quorum

import (
	"fmt"
	"time"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

const (
	// snapshotBytesMax bounds a snapshot that is fetched; it is held in memory.
	snapshotBytesMax = 1 << 30
	// downloadTries is how many answers may be of no use before it is given up.
	downloadTries = 10
	// downloadPause follows an answer of no use.
	downloadPause = model.Instant(100 * time.Millisecond)
)

// download fetches a snapshot piece by piece from one controller. It asks for
// the next piece when the one before has come.
type download struct {
	from   metadata.Voter
	seq    uint64 // of the question that is out
	out    bool
	sentAt model.Instant
	// againAt is when to ask again after a failure, Never otherwise.
	againAt model.Instant
	tries   int

	at   model.OffsetAndEpoch // NoOffset until the first answer
	size int64
	buf  []byte

	header metadata.SnapshotHeader
	image  *metadata.Image
}

func newDownload(from metadata.Voter) *download {
	return &download{from: from, at: noImage(), againAt: model.Never}
}

// noImage is where nothing has been applied.
func noImage() model.OffsetAndEpoch {
	return model.OffsetAndEpoch{Offset: model.NoOffset, Epoch: model.NoEpoch}
}

// request returns the next question.
func (d *download) request(cluster string, node model.BrokerID, dir metadata.DirectoryID) *pullRequest {
	return &pullRequest{Kind: pullSnapshot, ClusterID: cluster, Node: node, Directory: dir, At: d.at, Position: int64(len(d.buf))}
}

// reset begins anew with the newest snapshot.
func (d *download) reset() { d.at, d.size, d.buf = noImage(), 0, nil }

// take adds an answer. It reports whether the snapshot is whole; an error means
// that nothing was gained.
func (d *download) take(a *pullAnswer) (bool, error) {
	switch {
	case a.Status == pullGone:
		d.reset()
		return false, fmt.Errorf("snapshot at %s is gone", d.at)
	case a.Status != pullOK:
		return false, fmt.Errorf("status %d", a.Status)
	case a.Size <= 0 || a.Size > snapshotBytesMax:
		return false, fmt.Errorf("snapshot of %d bytes", a.Size)
	case d.at.Offset == model.NoOffset:
		d.at, d.size = a.Snapshot, a.Size
	}
	if a.Snapshot != d.at || a.Size != d.size || a.Position != int64(len(d.buf)) || len(a.Payload) == 0 {
		d.reset()
		return false, fmt.Errorf("a piece of another snapshot: %w", errBody)
	}
	d.buf = append(d.buf, a.Payload...)
	if int64(len(d.buf)) < d.size {
		return false, nil
	}
	var err error
	if d.header, d.image, err = metadata.ReadSnapshot(d.buf); err == nil && d.header.At != d.at {
		err = fmt.Errorf("snapshot at %s says it is at %s: %w", d.at, d.header.At, errBody)
	}
	if err != nil {
		d.reset()
		return false, err
	}
	return true, nil
}

// failed notes an answer of no use and reports whether to go on.
func (d *download) failed(now model.Now) bool {
	d.tries++
	d.againAt = now.Mono + downloadPause
	return d.tries < downloadTries
}

// confOf returns the voter configuration that a snapshot carries.
func confOf(h metadata.SnapshotHeader) (*raftpb.ConfState, error) {
	conf := new(raftpb.ConfState)
	if err := proto.Unmarshal(h.ConfState, conf); err != nil {
		return nil, fmt.Errorf("voter configuration of the snapshot at %s: %w", h.At, err)
	}
	return conf, nil
}
