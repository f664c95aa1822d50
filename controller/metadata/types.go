package metadata

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/tidemark/tidemark/internal/model"
)

// DirectoryID names one log directory of one broker; it is written to
// meta.properties when the directory is first used. Source: KIP-858.
type DirectoryID [16]byte

// The reserved directory ids of KIP-858.
var (
	// DirectoryUnassigned: the broker has not said yet where the replica lives.
	DirectoryUnassigned = DirectoryID{}
	// DirectoryLost: the replica lives in a directory that is offline.
	DirectoryLost = DirectoryID{15: 1}
)

// String returns the URL-safe base64 form without padding that meta.properties
// and DescribeQuorum carry.
func (d DirectoryID) String() string { return base64.RawURLEncoding.EncodeToString(d[:]) }

// RaftID returns the number by which the consensus library knows the voter with
// this node id and directory id. A voter whose directory was wiped gets another
// number, so it cannot vote twice in one term. Three values are reserved by the
// library and never returned.
func RaftID(node model.BrokerID, dir DirectoryID) uint64 {
	var b [20]byte
	binary.BigEndian.PutUint32(b[:4], uint32(node))
	copy(b[4:], dir[:])
	sum := sha256.Sum256(b[:])
	for i := 0; i+8 <= len(sum); i += 8 {
		id := binary.BigEndian.Uint64(sum[i:])
		if id != 0 && id < ^uint64(0)-1 {
			return id
		}
	}
	return 1
}

// Incarnation names one life of a broker process; it picks it at start.
type Incarnation [16]byte

// ResourceType says what a dynamic setting belongs to; the numbers are those of
// the Kafka protocol.
type ResourceType int8

// The resource types whose settings the image holds.
const (
	TopicResource  ResourceType = 2
	BrokerResource ResourceType = 4
	GroupResource  ResourceType = 32
	// ClientMetricsResource is a subscription to clients' metrics (KIP-714).
	ClientMetricsResource ResourceType = 16
	// QuotaResource is the client quotas of one entity, whose Key is its name. It is
	// no resource of the protocol, which has requests of their own for quotas; the
	// number is none that Kafka uses.
	QuotaResource ResourceType = 100
)

// settable reports whether there are resources of this type.
func (t ResourceType) settable() bool {
	switch t {
	case TopicResource, BrokerResource, ClientMetricsResource, GroupResource, QuotaResource:
		return true
	}
	return false
}

// Resource names the owner of dynamic settings. BrokerResource with an empty
// name is the cluster-wide default.
type Resource struct {
	Type ResourceType
	Name string
}

// Listener is one advertised address of a broker or voter.
type Listener struct {
	Name     string // listener name, as in the listeners setting
	Host     string
	Port     uint16
	Protocol int16 // security protocol: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL
}

// FeatureRange is what one broker supports of one feature.
type FeatureRange struct {
	Name     string
	Min, Max int16
}

// Feature is a finalized feature and its level.
type Feature struct {
	Name  string
	Level int16
}

// Voter is one member of the metadata quorum. The pair (Node, Directory) is its
// identity. Source: KIP-853.
type Voter struct {
	Node      model.BrokerID
	Directory DirectoryID
	Listeners []Listener
}

// RecoveryState says whether a leader was elected uncleanly and has not yet
// confirmed what it holds. Source: KIP-704.
type RecoveryState int8

// The recovery states, with Kafka's numbers.
const (
	Recovered  RecoveryState = 0
	Recovering RecoveryState = 1
)
