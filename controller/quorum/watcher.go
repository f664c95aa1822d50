package quorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/protocol/record"
	"go.uber.org/zap"
)

const (
	// pullPause follows a pull that failed at every controller in turn.
	pullPause = model.Instant(100 * time.Millisecond)
	// shunTime is how long a leader that did not answer is not turned to.
	shunTime = model.Instant(2 * time.Second)
	// pullMax is when a pull counts as lost. The carrier answers each, so this is
	// a second line.
	pullMax = model.Instant(10 * time.Second)
)

// watcher follows the metadata quorum without being part of it: it pulls
// committed entries, or a snapshot, from one controller at a time, and keeps a
// snapshot on its disk. It is a part of a loop, of an Observer's or of a Node's.
type watcher struct {
	config *Config
	dir    string
	logger *zap.Logger
	id     metadata.DirectoryID
	// post brings an answer into the loop; publish makes an image visible; joined
	// is told once that the image holds all that was committed before the start;
	// broken is told why it can't go on.
	post    func(answer)
	publish func(m *metadata.Image, d *metadata.Delta)
	joined  func(out *loop.Outbox)
	broken  func(err error, out *loop.Outbox)

	image *metadata.Image // Empty before the first
	disk  *observedDisk
	// hidden: the image is not yet published, because an earlier life may have
	// acted on a later one.
	hidden bool
	// shown is the offset of the last image that this life published.
	shown model.Offset
	// begun: joined was told. goal is the end that the image must reach for it,
	// NoOffset while nobody has said.
	begun bool
	goal  model.Offset

	leader model.BrokerID
	term   model.LeaderEpoch
	end    model.Offset

	// from is the controller that is asked, an index into targets(); failures in
	// a row count those that were of no use.
	from     int
	failures int
	seq      uint64
	sentAt   model.Instant // Never: no question is out
	againAt  model.Instant
	fetching *download
	// shunned is the leader that could not be reached, until when: one that is
	// dead stays the leader of its term for all who ask.
	shunned   model.BrokerID
	shunUntil model.Instant
	// diverged: the image was found to differ once; differs: the snapshot that is
	// to mend it has not come yet.
	diverged, differs bool
}

// targets are the controllers that may be asked: the voters that are known, else
// where the configuration says that some are.
func (c *Config) targets(m *metadata.Image) (all []metadata.Voter) {
	if m != nil {
		for _, v := range m.Voters() {
			if own := voterOf(c.Voters, v.Node); own != nil && len(own.Listeners) > 0 {
				v.Listeners = own.Listeners
			}
			all = append(all, v)
		}
	}
	for _, v := range slices.Concat(c.Voters, c.Join) {
		if v.Node == model.NoLeader || voterOf(all, v.Node) == nil {
			all = append(all, v)
		}
	}
	return slices.DeleteFunc(all, func(v metadata.Voter) bool { return v.Node == c.NodeID })
}

// begin loads what the disk has.
func (w *watcher) begin(now model.Now, out *loop.Outbox) error {
	w.goal, w.leader, w.shunned, w.term, w.sentAt, w.againAt = model.NoOffset, model.NoLeader, model.NoLeader, model.NoEpoch, model.Never, now.Mono
	disk, image, err := openObserved(w.config, w.dir)
	if err != nil {
		w.image = metadata.Empty()
		return err
	}
	w.disk, w.image, w.shown = disk, image, model.NoOffset
	if c := w.config.ClusterID; c != "" && w.disk.mark.cluster != "" && w.disk.mark.cluster != c {
		return fmt.Errorf("cluster id %q, metadata of %q: %w", c, w.disk.mark.cluster, ErrOtherCluster)
	}
	w.hidden = w.image.At().Offset < w.disk.mark.at.Offset && !mutant.On("ctl-observer-falls-back")
	if w.image.At().Offset != model.NoOffset && !w.hidden {
		w.shown = w.image.At().Offset
		w.publish(w.image, metadata.SnapshotDelta(metadata.Empty(), w.image))
	}
	w.pull(now)
	return nil
}

// beginInMemory begins with an image, of which the disk need not know: it may have
// been shown by this life already. begun says that joined was told.
func (w *watcher) beginInMemory(now model.Now, image *metadata.Image, begun bool) {
	w.goal, w.leader, w.shunned, w.term, w.sentAt, w.againAt = model.NoOffset, model.NoLeader, model.NoLeader, model.NoEpoch, model.Never, now.Mono
	w.disk = &observedDisk{mark: observedMark{at: image.At(), cluster: image.ClusterID()}}
	w.image, w.shown, w.begun = image, image.At().Offset, begun
	if image.At().Offset != model.NoOffset {
		w.publish(image, metadata.SnapshotDelta(metadata.Empty(), image))
	}
	w.pull(now)
}

// deadline is when tick is due.
func (w *watcher) deadline() model.Instant {
	if w.sentAt != model.Never {
		return w.sentAt + pullMax
	}
	return w.againAt
}

// tick asks again.
func (w *watcher) tick(now model.Now) {
	if w.sentAt != model.Never && now.Mono-w.sentAt >= pullMax {
		w.seq++ // its answer is not waited for any more
		w.sentAt = model.Never
		w.next(now)
	}
	w.pull(now)
}

// pull asks for what is next unless a question is out.
func (w *watcher) pull(now model.Now) {
	if w.sentAt != model.Never || w.againAt > now.Mono || len(w.config.targets(w.image)) == 0 {
		return
	}
	to := w.target()
	q := &pullRequest{ClusterID: w.cluster(), Node: w.config.NodeID, Directory: w.id, At: w.image.At(), Hash: w.image.Hash(), Confirm: !w.begun && w.goal == model.NoOffset, Wait: PullWaitMax}
	if w.fetching != nil {
		to = w.fetching.from
		q = w.fetching.request(w.cluster(), w.config.NodeID, w.id)
	}
	w.seq++
	seq := w.seq
	w.sentAt, w.againAt = now.Mono, model.Never
	w.config.Ask(to, KeyPull, q.encode(), func(body []byte, err error) { w.post(answer{seq: seq, body: body, err: err}) })
}

func (w *watcher) cluster() string {
	if w.image.ClusterID() != "" {
		return w.image.ClusterID()
	}
	if w.disk.mark.cluster != "" {
		return w.disk.mark.cluster
	}
	return w.config.ClusterID
}

// next turns to another controller: at once, unless all have failed in a row.
func (w *watcher) next(now model.Now) {
	if to := w.target(); to.Node == w.leader && w.leader != model.NoLeader {
		w.shunned, w.shunUntil = w.leader, now.Mono+shunTime
	}
	w.from++
	w.failures++
	w.fetching = nil
	w.againAt = now.Mono
	if n := len(w.config.targets(w.image)); n == 0 || w.failures%n == 0 {
		w.againAt += pullPause
	}
}

// answered takes an answer.
func (w *watcher) answered(now model.Now, a answer, out *loop.Outbox) {
	if a.seq != w.seq || w.sentAt == model.Never {
		return
	}
	w.sentAt, w.againAt = model.Never, now.Mono
	p, err := decodePullAnswer(a.body)
	if a.err != nil {
		err = a.err
	}
	if err == nil {
		w.hear(p)
		err = w.use(now, p, out)
	}
	switch {
	case errors.Is(err, errStop):
		w.broken(err, out)
		w.againAt = model.Never
		return
	case err != nil:
		w.logger.Debug("pull failed", zap.Error(err))
		w.next(now)
	default:
		w.failures = 0
		w.follow(now)
	}
	w.pull(now)
}

// errStop is wrapped by what ends a watcher for good.
var errStop = errors.New("metadata can't be followed")

// hear takes what the answer says of the quorum.
func (w *watcher) hear(p *pullAnswer) {
	if p.Term >= w.term && p.Leader != model.NoLeader || p.Term > w.term {
		w.leader, w.term = p.Leader, p.Term
	}
	w.end = max(w.end, p.End)
}

// follow turns to the leader: what is new is there first, and the leader tells
// operators who follows.
func (w *watcher) follow(now model.Now) {
	if w.leader == w.shunned && now.Mono < w.shunUntil {
		return
	}
	targets := w.config.targets(w.image)
	if i := slices.IndexFunc(targets, func(v metadata.Voter) bool { return v.Node == w.leader }); i >= 0 && w.fetching == nil {
		w.from = i
	}
}

// use does what an answer allows.
func (w *watcher) use(now model.Now, p *pullAnswer, out *loop.Outbox) error {
	switch p.Status {
	case pullOK:
	case pullOtherCluster:
		return fmt.Errorf("this node is of cluster %q, the controller of %q: %w", w.cluster(), p.ClusterID, ErrOtherCluster)
	case pullDiverged:
		return w.differ(p)
	case pullBehind:
		w.fetching = newDownload(w.target())
		return nil
	case pullGone:
		if w.fetching == nil {
			return fmt.Errorf("status %d", p.Status)
		}
	default:
		return fmt.Errorf("status %d", p.Status)
	}
	if w.fetching != nil {
		whole, err := w.fetching.take(p)
		if err != nil {
			if w.fetching.failed(now) && p.Status == pullGone {
				return nil
			}
			return err
		}
		if !whole {
			return nil
		}
		d := w.fetching
		w.fetching = nil
		return w.install(now, d, out)
	}
	if err := w.apply(p, out); err != nil {
		return err
	}
	if p.Confirmed {
		w.goal = max(w.goal, p.End)
		if seen := w.disk.mark.at; p.End <= seen.Offset {
			// Nothing that was committed can be gone, so these are other controllers,
			// or they have lost their disks. Acting on what they say would go back.
			w.logger.Error("a majority of the controllers knows less metadata than this node has acted on",
				zap.Int64("their_end", int64(p.End)), zap.Stringer("seen", seen))
		}
	}
	return w.reached(now, out)
}

func (w *watcher) target() metadata.Voter {
	targets := w.config.targets(w.image)
	if len(targets) == 0 {
		return metadata.Voter{Node: model.NoLeader}
	}
	return targets[w.from%len(targets)]
}

// differ handles the word that the image is another one than the controllers'. A
// fresh snapshot is tried once.
func (w *watcher) differ(p *pullAnswer) error {
	w.logger.Error("the metadata image differs from the controller's", zap.Stringer("at", w.image.At()),
		zap.Stringer("ours", w.image.Hash()), zap.Stringer("theirs", p.Hash))
	if w.diverged {
		return fmt.Errorf("at %s the hash is %s, the controller's %s: %w: %w", w.image.At(), w.image.Hash(), p.Hash, ErrDiverged, errStop)
	}
	w.diverged, w.differs = true, true
	w.fetching = newDownload(w.target())
	return nil
}

// apply applies the entries of an answer, and publishes the image once.
func (w *watcher) apply(p *pullAnswer, out *loop.Outbox) error {
	if len(p.Payload) == 0 {
		return nil
	}
	edit, at, n := metadata.NewEdit(w.image), w.image.At(), 0
	it := record.NewIter(p.Payload)
	for it.Next() {
		e, err := entryOf(it.Batch())
		if err != nil {
			return err
		}
		if next := offsetOf(e.GetIndex()); next != at.Offset.Next() {
			if next <= at.Offset {
				continue // it is in the image already
			}
			return fmt.Errorf("entry at offset %d behind %s: %w", next, at, errBody)
		}
		at = model.OffsetAndEpoch{Offset: offsetOf(e.GetIndex()), Epoch: model.LeaderEpoch(e.GetTerm())}
		recs, err := entryRecords(e)
		if err == nil {
			err = edit.Apply(at, recs)
		}
		if err != nil {
			return fmt.Errorf("entry %s: %w: %w", at, err, errStop)
		}
		n += len(it.Batch())
	}
	if it.Err() != nil || it.Rest() != 0 {
		return fmt.Errorf("%d bytes behind the entries: %w", it.Rest(), errBody)
	}
	if n == 0 {
		return nil
	}
	m, d := edit.Done()
	w.disk.grown += int64(n)
	return w.show(m, d)
}

// install takes over a snapshot. One that is not ahead of the image is taken
// only if the image was found to be wrong; what follows it is then applied out
// of sight.
func (w *watcher) install(now model.Now, d *download, out *loop.Outbox) error {
	if c := w.cluster(); c != "" && d.image.ClusterID() != c {
		return fmt.Errorf("snapshot of cluster %q: %w", d.image.ClusterID(), ErrOtherCluster)
	}
	if d.at.Offset <= w.image.At().Offset && !w.differs {
		return fmt.Errorf("snapshot at %s, image at %s", d.at, w.image.At())
	}
	w.differs = false
	if err := w.disk.saveSnapshot(d.header, d.buf); err != nil {
		return fmt.Errorf("%w: %w", err, errStop)
	}
	if err := w.show(d.image, metadata.SnapshotDelta(w.image, d.image)); err != nil {
		return err
	}
	return w.reached(now, out)
}

// show makes m the image. That it was is made durable before anybody can act on
// it.
func (w *watcher) show(m *metadata.Image, d *metadata.Delta) error {
	w.image = m
	seen := w.disk.mark.at.Offset
	if mutant.On("ctl-observer-falls-back") {
		seen = model.NoOffset
	}
	if m.At().Offset < seen || m.At().Offset <= w.shown {
		// This node has shown more, now or in an earlier life. An image that was
		// mended waits for the next offset.
		w.hidden = true
		return nil
	}
	if err := w.disk.note(m); err != nil {
		return fmt.Errorf("%w: %w", err, errStop)
	}
	if w.hidden {
		w.hidden = false
		d = metadata.SnapshotDelta(metadata.Empty(), m)
	}
	w.shown = m.At().Offset
	w.publish(m, d)
	return nil
}

// reached tells when the image has come to where the others were at the start,
// and writes a snapshot from time to time.
func (w *watcher) reached(now model.Now, out *loop.Outbox) error {
	if !w.begun && !w.hidden && w.goal != model.NoOffset && w.image.At().Offset.Next() >= w.goal {
		w.begun = true
		w.joined(out)
	}
	if w.disk.grown >= w.config.SnapshotBytes {
		if err := w.disk.writeSnapshot(now, w.image); err != nil {
			return fmt.Errorf("%w: %w", err, errStop)
		}
	}
	return nil
}

// close ends it. In good order a snapshot of the last image is written.
func (w *watcher) close(now model.Now, clean bool) error {
	w.seq++
	w.sentAt, w.againAt = model.Never, model.Never
	if w.disk == nil {
		return nil
	}
	var err error
	if clean && w.disk.grown > 0 && !w.hidden {
		err = w.disk.writeSnapshot(now, w.image)
	}
	return errors.Join(err, w.disk.close())
}

// describe is the quorum as it looks from here.
func (w *watcher) describe() *Description {
	d := &Description{Leader: w.leader, Epoch: w.term, HighWatermark: w.end}
	for _, v := range w.image.Voters() {
		d.Voters = append(d.Voters, ReplicaState{Node: v.Node, Directory: v.Directory, Listeners: v.Listeners,
			LogEndOffset: model.NoOffset, LastFetch: model.NoTimestamp, LastCaughtUp: model.NoTimestamp})
	}
	return d
}
