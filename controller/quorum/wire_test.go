package quorum

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"go.etcd.io/raft/v3/raftpb"
)

func sampleBodies(t testing.TB) map[string][]byte {
	m := &raftpb.Message{Type: raftpb.MsgApp.Enum(), From: new(uint64(3)), To: new(uint64(4)), Term: new(uint64(5)), Entries: []*raftpb.Entry{{Index: new(uint64(9)), Data: []byte("x")}}}
	raft, err := encodeRaft(metadata.Hash{1, 2}, m)
	must(t, err)
	return map[string][]byte{
		"raft":  raft,
		"probe": (&probeRequest{Node: 3, Listed: []model.BrokerID{1, 2, 3}}).encode(),
		"probed": (&probeAnswer{Standing: standingMember, Node: 2, Listed: []model.BrokerID{1, 2}, End: 77, Bootstrap: metadata.Hash{9},
			Identity: identity{Directory: metadata.DirectoryID{7}, ClusterID: "c", Configured: true, Time: 5, Listeners: voterAt(2).Listeners, Features: []metadata.Feature{{Name: "f", Level: 3}}},
			Voters:   []metadata.Voter{voterAt(1), voterAt(2)}}).encode(),
		"pull":   (&pullRequest{Kind: pullFollow, ClusterID: "c", Node: 9, Directory: metadata.DirectoryID{4}, At: bootstrapAt, Hash: metadata.Hash{8}, Confirm: true, Wait: 300 * time.Millisecond}).encode(),
		"pulled": (&pullAnswer{Status: pullDiverged, ClusterID: "c", Leader: 3, Term: 4, End: 5, Confirmed: true, Hash: metadata.Hash{6}, Snapshot: bootstrapAt, Size: 10, Position: 3, Payload: []byte("abc")}).encode(),
	}
}

// decodeBody decodes and encodes again.
func decodeBody(kind string, b []byte) ([]byte, error) {
	switch kind {
	case "raft":
		set, m, err := decodeRaft(b)
		if err != nil {
			return nil, err
		}
		return encodeRaft(set, m)
	case "probe":
		q, err := decodeProbeRequest(b)
		return q.encode(), err
	case "probed":
		a, err := decodeProbeAnswer(b)
		return a.encode(), err
	case "pull":
		q, err := decodePullRequest(b)
		if q == nil {
			return nil, err
		}
		return q.encode(), err
	default:
		a, err := decodePullAnswer(b)
		return a.encode(), err
	}
}

// TestPrivateBodies: what is written is read back; cut short, longer or of
// another version it is refused.
func TestPrivateBodies(t *testing.T) {
	for kind, b := range sampleBodies(t) {
		again, err := decodeBody(kind, b)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s: %v\n%x\n%x", kind, err, b, again)
		}
		if _, err := decodeBody(kind, append([]byte{9}, b[1:]...)); err == nil {
			t.Errorf("%s: another version is read", kind)
		}
		if kind == "raft" {
			continue // protobuf has no end of its own
		}
		for k := range b {
			if _, err := decodeBody(kind, b[:k]); err == nil {
				t.Errorf("%s: %d of %d bytes are enough", kind, k, len(b))
			}
		}
		if _, err := decodeBody(kind, append(bytes.Clone(b), 0)); err == nil {
			t.Errorf("%s: a byte too many", kind)
		}
	}
}

// TestPrivateNoise: bytes from the network never bring a node down.
func TestPrivateNoise(t *testing.T) {
	c := seeded(t, 1, 3)
	c.startAll()
	rng := rand.New(rand.NewPCG(1, 1))
	samples := sampleBodies(t)
	from := c.leader().node
	for range 3000 {
		n := c.all[rng.IntN(3)].node
		key := []int16{KeyRaft, KeyPull, KeyProbe, 77}[rng.IntN(4)]
		b := bytes.Clone(samples[[]string{"raft", "probe", "probed", "pull", "pulled"}[rng.IntN(5)]])
		if key == KeyRaft {
			b = c.noise(rng, from, n)
		}
		for range rng.IntN(3) {
			b[rng.IntN(len(b))] ^= byte(1 << rng.IntN(8))
		}
		n.AnswerPrivate(key, b, func([]byte) {})
		c.run(ms / 4)
	}
	for _, n := range c.all {
		if n.failed != nil {
			t.Logf("%d failed: %v", n.id, n.failed) // on the leader's word that it lost entries
		}
	}
	c.settle()
	c.check()
}

// noise is a message of the library with numbers that make no sense.
func (c *cluster) noise(rng *rand.Rand, from, to *Node) []byte {
	small := func() *uint64 { return new(uint64(rng.IntN(20))) }
	m := &raftpb.Message{
		Type: raftpb.MessageType(rng.IntN(24)).Enum(), From: new(from.raftID()), To: new(to.raftID()), Term: new(to.term + uint64(rng.IntN(2))),
		Index: small(), LogTerm: small(), RejectHint: small(), Reject: new(rng.IntN(2) == 0),
	}
	if m.GetType() == raftpb.MsgVote || m.GetType() == raftpb.MsgApp || m.GetType() == raftpb.MsgSnap {
		m.Term = new(uint64(0)) // what is signed with a leader's name and well formed is believed
	}
	b, err := encodeRaft(to.store.snapshot.BootstrapHash, m)
	must(c.t, err)
	return b
}

func TestIdentityFile(t *testing.T) {
	fs := newDisk()
	o := Config{FS: fs, NodeID: 1, Rand: rand.New(rand.NewPCG(1, 1)), Features: []metadata.Feature{{Name: "f", Level: 3}}, Listeners: voterAt(1).Listeners}
	id, err := identify(o, "data/x", model.Now{Wall: 5}, true)
	must(t, err)
	again, err := identify(o, "data/x", model.Now{Wall: 6}, true)
	must(t, err)
	if !reflect.DeepEqual(id, again) || id.Time != 5 || id.ClusterID == "" {
		t.Fatalf("%+v\n%+v", id, again)
	}
	flip(t, fs, "data/x/"+identityFile, 6)
	other, err := identify(o, "data/x", model.Now{Wall: 7}, true)
	must(t, err)
	if other.Directory == id.Directory {
		t.Fatal("a damaged file is believed")
	}
}
