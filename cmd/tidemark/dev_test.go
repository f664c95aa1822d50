package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tidemark/tidemark/internal/model"
)

// What tidemark dev gives its nodes is read as one cluster, without a warning.
func TestDevSettings(t *testing.T) {
	for n := 1; n <= devNodesMax; n++ {
		o := devOptions{nodes: n, portBase: 30000, dir: "some/dir", set: []string{"num.partitions=7"}}
		if err := o.check(); err != nil {
			t.Fatal(err)
		}
		for id := 1; id <= n; id++ {
			args := o.settings(id)
			var flags settingFlags
			fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
			flags.register(fs)
			if err := fs.Parse(args[1:]); err != nil || args[0] != "serve" {
				t.Fatalf("%q: %v", args, err)
			}
			c, _, warnings, err := flags.load(nil)
			if err != nil || len(warnings.Ignored)+len(warnings.Unknown)+len(warnings.Notes) > 0 {
				t.Fatalf("%q: %v, %+v", args, err, warnings)
			}
			topic, err := c.Topic(nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			replicas, minISR, voters := min(n, 3), 1, 0
			if n > 2 {
				minISR = 2
			}
			if n > 1 {
				voters = n
			}
			if c.NodeID != model.BrokerID(id) || c.Topics.NumPartitions != 7 || int(c.Topics.DefaultReplicationFactor) != replicas ||
				int(topic.MinInsyncReplicas) != minISR || len(c.Quorum.Voters) != voters ||
				c.LogDirs[0] != filepath.Join("some/dir", fmt.Sprintf("node-%d", id), "log") ||
				c.Own.HTTPListen != fmt.Sprintf("localhost:%d", 30200+id-1) || c.Listeners[0].Port != int32(30000+id-1) {
				t.Errorf("node %d of %d: %+v", id, n, c)
			}
			for i, v := range c.Quorum.Voters {
				if int(v.ID) != i+1 || int(v.Port) != 30100+i {
					t.Errorf("node %d of %d: voter %+v", id, n, v)
				}
			}
		}
	}
}
