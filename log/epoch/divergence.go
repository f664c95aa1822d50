package epoch

import "github.com/tidemark/tidemark/internal/model"

// Agreement is what a leader finds when it compares the end of a fetcher's log
// with its own.
type Agreement uint8

const (
	// Agrees: the fetcher's log is a prefix of ours as far as epochs can tell.
	Agrees Agreement = iota
	// Diverged: the fetcher must cut its log before it is sent records.
	Diverged
	// OutOfRange: nothing can be said about the asked epoch, or the offset lies
	// below our log start; the fetcher asks for our ends (OFFSET_OUT_OF_RANGE).
	OutOfRange
)

// String returns the name of the verdict.
func (a Agreement) String() string {
	switch a {
	case Agrees:
		return "agrees"
	case Diverged:
		return "diverged"
	case OutOfRange:
		return "out of range"
	}
	return "unknown"
}

// Compare is the leader's side of truncation on fetch: a fetcher's log ends at
// fetchOffset with records of lastFetched. For Diverged, the second value is
// the DivergingEpoch of the answer: the largest epoch not above lastFetched
// that we know and where it ends here. In the two other cases it is empty
// (NoEpoch, NoOffset).
//
// A fetcher that names no epoch (lastFetched is NoEpoch) is not compared.
// Ends above our log end are not judged here; the read is.
func (c *Cache) Compare(
	fetchOffset model.Offset, lastFetched model.LeaderEpoch, logStart, leo model.Offset,
) (Agreement, model.OffsetAndEpoch) {
	none := model.OffsetAndEpoch{Offset: model.NoOffset, Epoch: model.NoEpoch}
	if lastFetched < 0 {
		return Agrees, none
	}
	end := c.EndOffsetFor(lastFetched, leo)
	if end.Epoch == model.NoEpoch || end.Offset == model.NoOffset || fetchOffset < logStart {
		return OutOfRange, none
	}
	if end.Epoch < lastFetched || end.Offset < fetchOffset {
		return Diverged, end
	}
	return Agrees, none
}

// Cut is a follower's decision after the leader's answer.
type Cut struct {
	// To is the offset to truncate to, never above the log end. The truncation
	// is carried out even if To is the log end: an empty epoch may have to go.
	To model.Offset
	// Final is false when the follower must ask again, with its new latest
	// epoch. With truncation on fetch the next Fetch does that by itself.
	Final bool
}

// CutFor decides how far a follower truncates. leader is the leader's answer
// (DivergingEpoch of a Fetch, or OffsetsForLeaderEpoch), fetchOffset is the
// offset of the follower's fetch state, leo its log end.
//
// Each round that is not final lowers the latest local epoch, so there are at
// most as many rounds as the cache has entries.
func (c *Cache) CutFor(leader model.OffsetAndEpoch, fetchOffset, leo model.Offset) Cut {
	if leader.Offset == model.NoOffset {
		// The leader can say nothing of our epoch; the fetch state is the best
		// guess. It may still lie above the log end.
		return Cut{To: min(fetchOffset, leo), Final: true}
	}
	if leader.Epoch == model.NoEpoch {
		return Cut{To: min(leader.Offset, leo), Final: true}
	}
	local := c.EndOffsetFor(leader.Epoch, leo)
	switch {
	case local.Offset == model.NoOffset:
		return Cut{To: min(leader.Offset, leo), Final: true}
	case local.Epoch != leader.Epoch:
		return Cut{To: min(local.Offset, leo), Final: false}
	}
	return Cut{To: min(local.Offset, leader.Offset, leo), Final: true}
}
