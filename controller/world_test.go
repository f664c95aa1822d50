package controller

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const testCluster = "test-cluster"

// world is a controller with a committed log of its own.
type world struct {
	t    testing.TB
	c    *Controller
	now  model.Now
	at   model.OffsetAndEpoch
	mlog [][]metadata.Record
}

func newWorld(t testing.TB, seed uint64) *world {
	cfg := Defaults()
	cfg.Rules = NewConfigRules(config.Defaults())
	cfg.Rand = rand.New(rand.NewPCG(seed, 1))
	cfg.Features = []metadata.FeatureRange{{Name: "metadata.version", Min: 1, Max: 26}, {Name: "other.version", Min: 0, Max: 2}}
	w := &world{t: t, c: New(cfg), now: model.Now{Mono: 1e9, Wall: 1_700_000_000_000}}
	w.at = model.OffsetAndEpoch{Offset: 0, Epoch: 1}
	w.c.Activate(w.now)
	w.replay([]metadata.Record{
		&metadata.Cluster{ID: testCluster},
		&metadata.FeatureLevel{Feature: metadata.Feature{Name: "metadata.version", Level: 25}},
	})
	return w
}

// replay commits one entry.
func (w *world) replay(recs []metadata.Record) *metadata.Delta {
	w.t.Helper()
	// Through the codec, as a log would take them.
	e, err := metadata.DecodeEntry(metadata.AppendEntry(nil, metadata.Entry{Time: w.now.Wall, Records: recs}))
	if err != nil {
		w.t.Fatalf("entry does not survive the codec: %v", err)
	}
	d, err := w.c.Replay(w.now, []metadata.Committed{{At: w.at, Records: e.Records}})
	if err != nil {
		w.t.Fatalf("replay: %v", err)
	}
	w.mlog = append(w.mlog, e.Records)
	w.at.Offset++
	return d
}

// commit commits what a command wants and returns its answer.
func (w *world) commit(r Result) kmsg.Response {
	w.t.Helper()
	for _, e := range Pack(r.Units) {
		w.replay(e)
	}
	return r.Reply(w.c.Image().At())
}

func (w *world) do(req kmsg.Request) kmsg.Response {
	w.t.Helper()
	w.c.Wake(w.now)
	return w.commit(w.c.Handle(w.now, w.c.Image(), Command{Request: req}))
}

// incarnation is the n-th life of a broker.
func incarnation(b model.BrokerID, n int) (id [16]byte) {
	id[0], id[1] = byte(b), byte(n)
	return id
}

func (w *world) registerRequest(b model.BrokerID, life int, rack string, dirs int) *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.BrokerID, req.ClusterID, req.IncarnationID = int32(b), testCluster, incarnation(b, life)
	req.PreviousBrokerEpoch = -1
	if rack != "" {
		req.Rack = &rack
	}
	for d := range dirs {
		req.LogDirs = append(req.LogDirs, [16]byte{0xd, byte(b), byte(d)})
	}
	return req
}

func (w *world) heartbeatRequest(b model.BrokerID) *kmsg.BrokerHeartbeatRequest {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID = int32(b)
	if reg := w.c.Image().Broker(b); reg != nil {
		req.BrokerEpoch = int64(reg.Epoch)
	}
	req.CurrentMetadataOffset = int64(w.c.Image().At().Offset)
	return req
}

// join registers brokers and unfences them.
func (w *world) join(ids ...model.BrokerID) {
	w.t.Helper()
	for _, b := range ids {
		w.do(w.registerRequest(b, 1, "", 1))
		w.do(w.heartbeatRequest(b))
		if !w.c.Image().Broker(b).Active() {
			w.t.Fatalf("broker %d did not become active", b)
		}
	}
}

func createRequest(name string, partitions int32, rf int16) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, rf
	req.Topics = append(req.Topics, t)
	return req
}

// names makes topic ids in s readable.
func (w *world) names(s string, more ...*metadata.Topic) string {
	for t := range w.c.Image().Topics() {
		s = strings.ReplaceAll(s, t.ID.String(), t.Name)
	}
	for _, t := range more {
		s = strings.ReplaceAll(s, t.ID.String(), t.Name)
	}
	return s
}

// invariants checks what must hold in every published image (invariant 6).
func (w *world) invariants() {
	w.t.Helper()
	m := w.c.Image()
	for t := range m.Topics() {
		if len(t.Partitions) == 0 {
			w.t.Fatalf("topic %s has no partitions", t.Name)
		}
		for n, p := range t.Partitions {
			at := fmt.Sprintf("%s-%d: %s", t.Name, n, p)
			for _, b := range p.ISR {
				if !p.HasReplica(b) {
					w.t.Fatalf("isr outside the assignment: %s", at)
				}
			}
			if p.Leader == model.NoLeader {
				continue
			}
			if !p.InISR(p.Leader) {
				w.t.Fatalf("leader outside the isr: %s", at)
			}
			if b := m.Broker(p.Leader); b == nil || b.Fenced {
				w.t.Fatalf("a fenced broker leads: %s", at)
			}
		}
	}
}
