package host

import (
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// deposed takes the leadership of partition 0 away.
func deposed(name string) metadata.Record {
	c := metadata.NewPartitionChange(topicID(name), 0)
	c.Leader = model.NoLeader
	return c
}

func prepare(t testing.TB, n *node, b record.Batch) record.Prepared {
	t.Helper()
	rules := record.DefaultRules(n.rt.Now().Wall)
	p, reject := record.Validate(b, &rules)
	if reject != nil {
		t.Fatalf("rejected: %+v", reject)
	}
	return p
}

func offsetAndEpoch(o model.Offset, e model.LeaderEpoch) model.OffsetAndEpoch {
	return model.OffsetAndEpoch{Offset: o, Epoch: e}
}

var _ = config.Defaults
