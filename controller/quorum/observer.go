package quorum

import (
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"go.uber.org/zap"
)

// Observer follows the metadata quorum on a node that is no controller. It has
// the reading half of a Node and takes no commands. All exported methods but
// Start and Subscribe may be called from any goroutine.
type Observer struct {
	config Config
	box    *loop.Box[watched]

	image       atomic.Pointer[metadata.Image]
	description atomic.Pointer[Description]
	subscribers []Subscriber
	stopped     chan struct{}

	// What follows belongs to the loop.

	watch  *watcher
	failed error
	closed bool
}

// watched is what enters an Observer's loop.
type watched struct {
	answer answer
	begin  *beginning
	stop   bool
	clean  bool
}

var _ loop.Handler[watched] = (*Observer)(nil)

// NewObserver returns an observer that has touched nothing yet. Of config it
// needs FS, Dir, NodeID, ClusterID if it is known, Voters or Join, Ask and RT,
// and uses DirectoryID, SnapshotBytes, Started, Failed and Logger.
func NewObserver(config Config) *Observer {
	if config.SnapshotBytes <= 0 {
		config.SnapshotBytes = defaultSnapshotBytes
	}
	if config.Logger == nil {
		config.Logger = zap.NewNop()
	}
	o := &Observer{config: config, stopped: make(chan struct{})}
	o.box = loop.NewBox[watched](o, config.RT)
	o.image.Store(metadata.Empty())
	o.description.Store(&Description{Leader: model.NoLeader, Epoch: model.NoEpoch})
	return o
}

// Subscribe adds a subscriber. Call it before Start.
func (o *Observer) Subscribe(s Subscriber) { o.subscribers = append(o.subscribers, s) }

// Image returns the newest image; never nil. Its offset never falls, over all
// lives of the directory.
func (o *Observer) Image() *metadata.Image { return o.image.Load() }

// Describe returns the quorum as it looks from here; never nil.
func (o *Observer) Describe() *Description { return o.description.Load() }

// Leader returns the leader as it is known here, and its epoch.
func (o *Observer) Leader() (model.BrokerID, model.LeaderEpoch) {
	d := o.description.Load()
	return d.Leader, d.Epoch
}

// Identity returns the directory id that this node observes under, and the
// cluster id. Known once Config.Started was told nil.
func (o *Observer) Identity() (metadata.DirectoryID, string) {
	return o.config.DirectoryID, o.Image().ClusterID()
}

// Start loads the disk and begins to follow. Config.Started is told once the
// image holds everything that was committed before.
func (o *Observer) Start() error {
	if o.config.Ask == nil {
		return fmt.Errorf("no way to reach a controller: %w", ErrVoters)
	}
	b := &beginning{}
	o.box.Enter(watched{begin: b})
	return b.err
}

// Stop ends it and returns once its files are closed. clean stores the last
// image first.
func (o *Observer) Stop(clean bool) {
	o.box.Enter(watched{stop: true, clean: clean})
	<-o.stopped
}

// Handle implements loop.Handler.
func (o *Observer) Handle(now model.Now, m watched, out *loop.Outbox) {
	switch {
	case m.stop:
		o.stop(now, m.clean)
	case o.closed || o.failed != nil:
	case m.begin != nil:
		o.watch = o.newWatcher()
		if m.begin.err = o.watch.begin(now, out); m.begin.err != nil {
			o.failed = m.begin.err
		}
	default:
		o.watch.answered(now, m.answer, out)
		o.description.Store(o.watch.describe())
	}
}

// NextDeadline implements loop.Handler.
func (o *Observer) NextDeadline() model.Instant {
	if o.watch == nil || o.closed || o.failed != nil {
		return model.Never
	}
	return o.watch.deadline()
}

// Tick implements loop.Handler.
func (o *Observer) Tick(now model.Now, _ *loop.Outbox) {
	if o.watch != nil && !o.closed && o.failed == nil {
		o.watch.tick(now)
	}
}

func (o *Observer) newWatcher() *watcher {
	return &watcher{
		config: &o.config, dir: filepath.Join(o.config.Dir, TopicName+"-0"), logger: o.config.Logger, id: o.config.DirectoryID,
		post: func(a answer) { o.box.Post(watched{answer: a}) },
		publish: func(m *metadata.Image, d *metadata.Delta) {
			o.image.Store(m)
			for _, s := range o.subscribers {
				s(m, d)
			}
		},
		joined: func(out *loop.Outbox) {
			if o.config.Started != nil {
				out.Add(&startedDelivery{o.config.Started, nil})
			}
		},
		broken: func(err error, _ *loop.Outbox) { o.fail(err) },
	}
}

// fail ends the following for good; the last image stays.
func (o *Observer) fail(err error) {
	o.failed = err
	o.config.Logger.Error("metadata can't be followed", zap.Error(err))
	if o.config.Failed != nil {
		o.config.Failed(err)
	}
}

func (o *Observer) stop(now model.Now, clean bool) {
	if o.closed {
		return
	}
	o.closed = true
	if o.watch != nil {
		if err := o.watch.close(now, clean && o.failed == nil); err != nil {
			o.config.Logger.Error("close metadata", zap.Error(err))
		}
	}
	close(o.stopped)
}
