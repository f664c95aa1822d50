package quorum

import (
	"errors"
	"fmt"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"go.etcd.io/raft/v3"
	"go.uber.org/zap"
)

// A member whose disk has no room for what the consensus library wants stored can
// promise nothing. It stands aside: nothing of the library's work that was not
// stored has left this node, so it drops the library's node, as a kill would, and
// says nothing more in the quorum. Meanwhile it follows the committed log as an
// observer does, but in memory, so that the partitions of its broker learn what
// happens. Once the disk has room it loads what stands there and is the member it
// was, as after a restart.

// errUnflushed marks a failed fsync. Whatever its reason, what the disk has is not
// known any more, and that is no case for standing aside.
var errUnflushed = errors.New("flush")

// broke handles an error of the storage: the node stands aside if only room is
// missing, and has failed otherwise.
func (n *Node) broke(now model.Now, err error, out *loop.Outbox) {
	if !vfs.IsNoSpace(err) || errors.Is(err, errUnflushed) {
		n.fail(err, out)
		return
	}
	n.resign(out, fmt.Errorf("%w: %w", ErrNotActive, ErrFull))
	n.dropReads(true, out)
	_ = n.store.close(false) // what it could not write is why this is done
	n.store, n.raft, n.fetching, n.pending = nil, nil, nil, nil
	n.failover.standAt, n.tickAt = model.Never, model.Never
	n.lead, n.soughtAt = raft.None, 0
	n.beginAside(now, n.Image(), err, out)
	n.resigned(now, out)
	n.wake(now, out)
}

// beginAside begins to follow from an image, with nothing on the disk.
func (n *Node) beginAside(now model.Now, image *metadata.Image, why error, out *loop.Outbox) {
	n.phase, n.fullUntil = phaseAside, now.Mono+roomAgain
	n.logger.Error("no room for the metadata log; this voter takes no part in the quorum until there is", zap.Error(why))
	if len(n.config.targets(image)) > 0 && n.config.Ask != nil {
		n.watch = n.newWatcher()
		n.watch.beginInMemory(now, image, n.told)
	}
	n.describe()
	n.wake(now, out)
}

// lookForRoom makes a member of this node again once its disk has room.
func (n *Node) lookForRoom(now model.Now, out *loop.Outbox) {
	if now.Mono < n.fullUntil {
		return
	}
	n.fullUntil = now.Mono + roomAgain
	if free, enough := n.room(); !enough {
		n.logger.Debug("still no room for metadata", zap.Int64("free_bytes", free))
		return
	}
	store, l, err := load(n.config, n.dir, now)
	if err == nil {
		// Of a vote that was written when the room ran out it is not known whether it
		// is durable.
		if err = store.writeHardState(store.hard); err != nil {
			_ = store.close(false)
		}
	}
	switch {
	case vfs.IsNoSpace(err) && !errors.Is(err, errUnflushed):
		return
	case err != nil:
		n.fail(fmt.Errorf("metadata log: %w", err), out)
		return
	}
	if n.watch != nil {
		if err := n.watch.close(now, false); err != nil {
			n.logger.Warn("end of following", zap.Error(err))
		}
	}
	n.watch, n.store, n.fullUntil = nil, store, 0
	n.logger.Warn("there is room for metadata again; this voter takes part")
	if err := n.beginMember(now, l, out); err != nil {
		n.fail(err, out)
	}
}

// room returns what is free on the disk of the metadata log, and whether that is
// enough. A disk that can't say counts as having room: a write will tell.
func (n *Node) room() (free int64, enough bool) {
	free, total, err := n.config.FS.Free(n.dir)
	return free, err != nil || free >= max(roomMin, min(roomMax, total/64))
}

// prepareAside begins a member whose disk can't be taken up for want of room. Who
// it is may stand in the log; what it shows is the newest snapshot, of which alone
// it is known here that it is committed.
func (n *Node) prepareAside(b *beginning, why error) error {
	last, _, _ := salvage(n.config, n.dir)
	id, err := n.checkIdentity(last)
	if err != nil {
		return errors.Join(why, err)
	}
	n.setID(id)
	b.phase, b.why, b.loaded.image = phaseAside, why, metadata.Empty()
	all, err := listSnapshots(n.config.FS, n.dir)
	for _, at := range all {
		if _, m, err := readSnapshot(n.config.FS, n.dir, at); err == nil {
			b.loaded.image = m
			break
		}
	}
	return err
}
