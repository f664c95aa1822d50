package quorum

import (
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// Description is the state of the quorum as DescribeQuorum reports it; a value
// that is never changed after it was published.
type Description struct {
	// Leader is the active controller's node id, or model.NoLeader.
	Leader model.BrokerID
	// Epoch is the term.
	Epoch model.LeaderEpoch
	// HighWatermark is the exclusive end of what is committed.
	HighWatermark model.Offset
	// Active: this node leads and its controller takes commands.
	Active bool
	Voters []ReplicaState
	// Observers are the nodes that follow the log without a vote.
	Observers []ReplicaState
}

// ReplicaState is one member as the leader sees it.
type ReplicaState struct {
	Node         model.BrokerID
	Directory    metadata.DirectoryID
	Listeners    []metadata.Listener
	LogEndOffset model.Offset
	// LastFetch is when the member last spoke, LastCaughtUp when it last held
	// all that the leader held; NoTimestamp if never. Kafka reports −1 for the
	// leader's own; so does this.
	LastFetch, LastCaughtUp model.Timestamp
}
