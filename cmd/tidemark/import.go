package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log/rescue"
)

// importKafka copies the log directories of stopped Kafka brokers into the first
// log directory of a node that has none yet, and says what it chose. It does
// nothing if they were imported before, so that the same command line starts the
// node again.
func importKafka(sources []string, cfg *config.Broker, out io.Writer) error {
	if len(sources) == 0 {
		// Half of an import is nothing to serve. A manifest that can't be read keeps
		// no node down.
		if _, err := rescue.Done(osfs.New(), cfg.LogDirs[0]); errors.Is(err, rescue.ErrUnfinished) {
			return err
		}
		return nil
	}
	if !cfg.Roles.Broker || !cfg.Roles.Controller || len(cfg.Quorum.Voters) > 1 {
		return &usageError{errors.New("--import needs a node that is a cluster of its own: broker and only controller")}
	}
	fs, dir := osfs.New(), cfg.LogDirs[0]
	switch done, err := rescue.Done(fs, dir); {
	case err != nil && !errors.Is(err, rescue.ErrUnfinished):
		return err
	case done != nil && slices.Equal(done.Sources, sources):
		return nil
	case done != nil:
		return fmt.Errorf("%s: %w: it holds what was imported from %v", dir, rescue.ErrNotEmpty, done.Sources)
	}
	plan, err := rescue.Look(fs, sources)
	if err != nil {
		return err
	}
	for _, t := range plan.Topics {
		told := "settings are those of its cluster"
		if !t.Told {
			told = fmt.Sprintf("its settings are not known: %v", t.Configs)
		}
		fmt.Fprintf(out, "import %s: %d of %d partitions found; %s\n", t.Name, len(t.Replicas), t.Partitions, told)
		for _, r := range t.Replicas {
			fmt.Fprintf(out, "  %v from %s, %d bytes, end %v\n", r.Partition, r.Dir, r.Bytes, r.Last)
		}
	}
	for _, l := range plan.Left {
		fmt.Fprintf(out, "not imported: %s: %s\n", l.Dir, l.Why)
	}
	_, err = plan.Import(fs, sources, rescue.Target{
		LogDir: dir, NodeID: cfg.NodeID, ClusterID: cfg.ClusterID, NewID: newID, Now: model.Timestamp(time.Now().UnixMilli()),
	})
	return err
}

// newID draws an id.
func newID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // it never fails
	return id
}
