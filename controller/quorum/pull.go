package quorum

import (
	"fmt"
	"time"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// pullKind says what a pull asks for.
type pullKind uint8

const (
	// pullFollow asks for the committed entries behind an offset.
	pullFollow pullKind = iota
	// pullSnapshot asks for a piece of a snapshot.
	pullSnapshot
)

// pullStatus is the outcome of a pull.
type pullStatus uint8

const (
	pullOK pullStatus = iota
	// pullNotReady: the node is no member, or its quorum has no leader to confirm
	// what was asked to be confirmed. Ask another one.
	pullNotReady
	// pullOtherCluster: the cluster ids differ.
	pullOtherCluster
	// pullDiverged: at the same offset the image or its epoch is another one here.
	pullDiverged
	// pullBehind: the entries are gone; take a snapshot.
	pullBehind
	// pullGone: that snapshot is gone; begin with the newest.
	pullGone
)

// pullBytesMax bounds the payload of an answer. Source: rules 8.
const pullBytesMax = 1 << 20

// pullRequest is what an observer asks a controller, or a voter its leader.
type pullRequest struct {
	Kind      pullKind
	ClusterID string // "" not known yet
	Node      model.BrokerID
	Directory metadata.DirectoryID

	// Of pullFollow: the image that the asker has, its hash, whether the answer
	// must know all that was committed before the question, and how long it may
	// wait for news.
	At      model.OffsetAndEpoch
	Hash    metadata.Hash
	Confirm bool
	Wait    time.Duration

	// Of pullSnapshot: which snapshot (offset NoOffset: the newest) and from which
	// byte on.
	Position int64
}

func (q *pullRequest) encode() []byte {
	e := newEncoder()
	e.u8(uint8(q.Kind))
	e.str(q.ClusterID)
	e.node(q.Node)
	e.id(q.Directory)
	e.at(q.At)
	e.id(q.Hash)
	e.flag(q.Confirm)
	e.u32(uint32(q.Wait.Milliseconds()))
	e.u64(uint64(q.Position))
	return e.b
}

func decodePullRequest(b []byte) (*pullRequest, error) {
	d := newDecoder(b)
	q := &pullRequest{Kind: pullKind(d.u8()), ClusterID: d.str(), Node: d.node(), Directory: d.id(), At: d.at(), Hash: d.id(), Confirm: d.flag()}
	q.Wait = min(time.Duration(d.u32())*time.Millisecond, PullWaitMax)
	q.Position = int64(d.u64())
	if q.Kind > pullSnapshot && d.err == nil {
		return nil, fmt.Errorf("pull of kind %d: %w", q.Kind, errBody)
	}
	return q, d.end()
}

// pullAnswer is what comes back.
type pullAnswer struct {
	Status    pullStatus
	ClusterID string
	// Leader and Term are the quorum's as the answerer sees it, End the exclusive
	// end of what it has applied.
	Leader model.BrokerID
	Term   model.LeaderEpoch
	End    model.Offset
	// Confirmed: End is not below anything committed before the question.
	Confirmed bool
	// Hash is the answerer's image hash at the asker's offset, where Status is
	// pullDiverged.
	Hash metadata.Hash

	// Snapshot, Size and Position place the bytes of a snapshot in Payload; else
	// Payload is record batches of the metadata log.
	Snapshot model.OffsetAndEpoch
	Size     int64
	Position int64
	Payload  []byte
}

func (a *pullAnswer) encode() []byte {
	e := newEncoder()
	e.u8(uint8(a.Status))
	e.str(a.ClusterID)
	e.node(a.Leader)
	e.u32(uint32(a.Term))
	e.u64(uint64(a.End))
	e.flag(a.Confirmed)
	e.id(a.Hash)
	e.at(a.Snapshot)
	e.u64(uint64(a.Size))
	e.u64(uint64(a.Position))
	e.bytes(a.Payload)
	return e.b
}

func decodePullAnswer(b []byte) (*pullAnswer, error) {
	d := newDecoder(b)
	a := &pullAnswer{Status: pullStatus(d.u8()), ClusterID: d.str(), Leader: d.node(), Term: model.LeaderEpoch(d.u32()), End: model.Offset(d.u64()), Confirmed: d.flag(), Hash: d.id()}
	a.Snapshot, a.Size, a.Position, a.Payload = d.at(), int64(d.u64()), int64(d.u64()), d.bytes()
	return a, d.end()
}
