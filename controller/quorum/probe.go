package quorum

import (
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// standing is what a node says of its disk when it is probed.
type standing uint8

const (
	// standingUnknown: it is starting, failed, or stopped.
	standingUnknown standing = iota
	// standingVirgin: nothing was ever written; it would bootstrap with others.
	standingVirgin
	// standingMember: it belongs to a quorum, whose voters it names.
	standingMember
	// standingStranger: it is in use but no voter; it can neither bootstrap nor
	// tell what the quorum is.
	standingStranger
)

// probeRequest asks for a standing. Listed are the node ids of the asker's
// static quorum, sorted.
type probeRequest struct {
	Node      model.BrokerID
	Directory metadata.DirectoryID
	Listed    []model.BrokerID
}

func (q *probeRequest) encode() []byte {
	e := newEncoder()
	e.node(q.Node)
	e.id(q.Directory)
	encodeNodes(e, q.Listed)
	return e.b
}

func decodeProbeRequest(b []byte) (*probeRequest, error) {
	d := newDecoder(b)
	q := &probeRequest{Node: d.node(), Directory: d.id(), Listed: decodeNodes(d)}
	return q, d.end()
}

func encodeNodes(e *encoder, nodes []model.BrokerID) {
	e.u32(uint32(len(nodes)))
	for _, n := range nodes {
		e.node(n)
	}
}

func decodeNodes(d *decoder) (nodes []model.BrokerID) {
	n := d.u32()
	for i := uint32(0); i < n && d.err == nil; i++ {
		nodes = append(nodes, d.node())
	}
	return nodes
}

// probeAnswer is what a node says of itself.
type probeAnswer struct {
	Standing standing
	Node     model.BrokerID
	Listed   []model.BrokerID
	// Identity is the share in a bootstrap of a virgin node; of others only its
	// Directory and ClusterID count.
	Identity identity
	// Voters are the set that a member knows, Known says that it counts the asker
	// as a voter or as one that is to become one, End is the exclusive end of what
	// it has applied, and Bootstrap what set its cluster began with.
	Voters    []metadata.Voter
	Known     bool
	End       model.Offset
	Bootstrap metadata.Hash
}

func (a *probeAnswer) encode() []byte {
	e := newEncoder()
	e.u8(uint8(a.Standing))
	e.node(a.Node)
	encodeNodes(e, a.Listed)
	a.Identity.encode(e)
	e.bytes(encodeVoters(a.Voters))
	e.flag(a.Known)
	e.u64(uint64(a.End))
	e.id(a.Bootstrap)
	return e.b
}

func decodeProbeAnswer(b []byte) (*probeAnswer, error) {
	d := newDecoder(b)
	a := &probeAnswer{Standing: standing(d.u8()), Node: d.node(), Listed: decodeNodes(d)}
	a.Identity.decode(d)
	var err error
	if a.Voters, err = decodeVoters(d.bytes()); err != nil && d.err == nil {
		d.err = err
	}
	a.Known = d.flag()
	a.End = model.Offset(d.u64())
	a.Bootstrap = d.id()
	return a, d.end()
}

// encodeVoters returns a voter set as an entry of one record, or nothing for an
// empty one.
func encodeVoters(voters []metadata.Voter) []byte {
	if len(voters) == 0 {
		return nil
	}
	return metadata.AppendEntry(nil, metadata.Entry{Records: []metadata.Record{&metadata.Voters{Voters: voters}}})
}

func decodeVoters(b []byte) ([]metadata.Voter, error) {
	if len(b) == 0 {
		return nil, nil
	}
	entry, err := metadata.DecodeEntry(b)
	if err != nil {
		return nil, err
	}
	for _, r := range entry.Records {
		if v, ok := r.(*metadata.Voters); ok {
			return v.Voters, nil
		}
	}
	return nil, errBody
}

// listed returns the node ids of the static quorum, sorted.
func (c *Config) listed() (nodes []model.BrokerID) {
	for _, v := range c.Voters {
		nodes = append(nodes, v.Node)
	}
	slices.Sort(nodes)
	return nodes
}
