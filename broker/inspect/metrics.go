package inspect

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/controller/quorum"
	"github.com/tidemark/tidemark/internal/metrics"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
)

// Collect hands over every number there is.
func (n *Node) Collect(s *metrics.Sink) {
	s.Set(buildInfo, 1, n.version)
	p := n.parts.Load()
	if p == nil {
		s.Set(brokerState, stateStarting)
		return
	}
	img, d := p.Quorum.Image(), p.Quorum.Describe()
	s.Set(nodeInfo, 1, strconv.Itoa(int(p.Self)), img.ClusterID())
	for name, count := range p.Group.Counts() { // order-free: a set of series
		s.Count(goroutines, int64(count), name)
	}
	n.collectServer(s)
	n.collectCluster(s, img)
	p.collectQuorum(s, d)
	p.collectLoops(s)
	if p.Peers != nil {
		collectPeers(s, p.Peers())
	}
	if p.Voter != nil {
		s.Durations(metadataFlushTime, p.Voter.Flushes())
	}
	if p.Replicas != nil {
		s.Set(brokerState, p.state(img))
		p.collectReplicas(s, img)
		p.collectDirs(s)
		p.collectLiveness(s)
		p.collectGroups(s)
		p.collectTelemetry(s)
		sessions, evicted := p.Sessions.Len()
		s.Count(fetchSessions, int64(sessions))
		s.Count(fetchSessionsEvicted, evicted)
		applied := p.Replicas.Applied()
		s.Count(metadataApplied, int64(applied))
		s.Count(metadataLag, max(0, int64(d.HighWatermark)-int64(applied)-1))
	}
}

// Kafka's numbers of the states that a broker goes through.
const (
	stateStarting = 1
	stateRecovery = 2
	stateRunning  = 3
)

func (p *Parts) state(img *metadata.Image) float64 {
	if b := img.Broker(p.Self); b != nil && !b.Fenced && b.Epoch == p.Epoch() {
		return stateRunning
	}
	return stateRecovery
}

func (n *Node) collectServer(s *metrics.Sink) {
	srv := n.server.Load()
	if srv == nil {
		return
	}
	st := srv.Stats()
	s.Count(connections, int64(st.Connections))
	s.Count(accepted, st.Accepted)
	s.Count(refused, st.Refused)
	s.Count(badFrames, st.BadFrames)
	s.Count(panics, st.Panics)
	s.Count(frameMemory, st.FrameBytes)
	for _, a := range srv.APIs() {
		name := apiName(a.Key)
		s.Count(requests, int64(a.Took.Count), name)
		s.Durations(requestTime, a.Took, name)
		s.Count(requestBytes, a.BytesIn, name)
		s.Count(responseBytes, a.BytesOut, name)
	}
	for _, e := range srv.Errors() {
		s.Count(requestErrors, e.Count, apiName(e.Key), protocol.CodeName(e.Code))
	}
}

// collectPeers tells what went over the connections to other nodes.
func collectPeers(s *metrics.Sink, peers []PeerTraffic) {
	slices.SortFunc(peers, func(a, b PeerTraffic) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Class, b.Class)) })
	for _, p := range peers {
		node := strconv.Itoa(int(p.Node))
		s.Count(peerConnects, p.Connects.Load(), node, p.Class)
		s.Count(peerLost, p.Lost.Load(), node, p.Class)
		s.Count(peerRequests, p.Requests.Load(), node, p.Class)
		s.Count(peerAnswers, p.Answers.Load(), node, p.Class)
		s.Count(peerBytesOut, p.BytesOut.Load(), node, p.Class)
		s.Count(peerBytesIn, p.BytesIn.Load(), node, p.Class)
	}
}

func apiName(key int16) string {
	if api, ok := protocol.Lookup(key); ok {
		return api.Name
	}
	if key < 0 {
		return "other"
	}
	return "api-" + strconv.Itoa(int(key))
}

// collectCluster tells what the metadata says of the whole cluster.
func (n *Node) collectCluster(s *metrics.Sink, img *metadata.Image) {
	var active, fenced int64
	for _, b := range img.Brokers() {
		if b.Fenced {
			fenced++
		} else {
			active++
		}
	}
	s.Count(activeBrokers, active)
	s.Count(fencedBrokers, fenced)
	s.Count(globalTopics, int64(img.NumTopics()))
	s.Count(globalPartitions, int64(img.NumPartitions()))
	s.Count(offlinePartitions, int64(img.Offline()))
	s.Count(preferredImbalance, int64(img.Imbalanced()))
	s.Count(elected, n.elections.elected.Load())
	s.Count(electedUnclean, n.elections.unclean.Load())
	s.Count(recoveryDropped, n.elections.dropped.Load())
	s.Count(leadersLost, n.elections.lost.Load())
}

func (p *Parts) collectQuorum(s *metrics.Sink, d *quorum.Description) {
	s.Flag(activeController, d.Active)
	s.Count(quorumLeader, int64(d.Leader))
	s.Count(quorumEpoch, int64(d.Epoch))
	s.Count(quorumHighWatermark, int64(d.HighWatermark))
	s.Count(quorumVoters, int64(len(d.Voters)))
	s.Flag(quorumAside, d.Aside)
	for i := range d.Voters {
		if v := &d.Voters[i]; v.LogEndOffset != model.NoOffset {
			s.Count(quorumLogEnd, int64(v.LogEndOffset), strconv.Itoa(int(v.Node)))
		}
	}
}

func (p *Parts) collectLoops(s *metrics.Sink) {
	if p.Depths != nil {
		for _, d := range p.Depths() {
			s.Count(loopWaiting, int64(d.Waiting), d.Loop)
		}
	}
	if p.Replicas == nil {
		return
	}
	var sum, most, produces int
	for _, h := range p.Replicas.All() {
		waiting := h.Backlog()
		produces += h.Waiting()
		sum += waiting
		most = max(most, waiting)
	}
	s.Count(loopWaiting, int64(sum), "partitions")
	s.Count(loopWaitingMax, int64(most))
	s.Count(producesWaiting, int64(produces))
	s.Count(fetchesWaiting, int64(p.Fetches()))
}

// collectTelemetry tells how much clients tell of themselves.
func (p *Parts) collectTelemetry(s *metrics.Sink) {
	c := p.Telemetry()
	s.Count(telemetryInstances, c.Instances)
	s.Count(telemetrySubscriptions, c.Subscriptions)
	s.Count(telemetryPushes, c.Pushes)
	s.Count(telemetryBytes, c.Bytes)
	s.Count(telemetryLast, c.Last)
	s.Count(telemetryUnknown, c.Unknown)
	s.Count(telemetryThrottled, c.Throttled)
	s.Count(telemetryRefused, c.Refused)
	s.Count(telemetryForgotten, c.Forgotten)
	s.Count(telemetryDisplaced, c.Displaced)
}

// collectGroups tells what this broker coordinates.
func (p *Parts) collectGroups(s *metrics.Sink) {
	c := p.Groups()
	s.Count(groupCount, c.Empty+c.Preparing+c.Completing+c.Stable)
	s.Count(groupsEmpty, c.Empty)
	s.Count(groupsPreparing, c.Preparing)
	s.Count(groupsCompleting, c.Completing)
	s.Count(groupsStable, c.Stable)
	s.Count(groupOffsets, c.Offsets)
	s.Count(groupRebalances, c.Rebalances)
	s.Count(groupGenerations, c.Generations)
	s.Count(groupEvicted, c.Evicted)
	s.Count(groupCommits, c.Commits)
	s.Count(groupExpired, c.Expired)
	s.Count(groupUnreadable, c.Unreadable)
	s.Count(groupLoads, c.Loads)
	s.Count(groupReloads, c.Reloads)
	s.Count(groupLoadedRecords, c.LoadedRecords)
}

// collectLiveness tells how this broker stands with the controller.
func (p *Parts) collectLiveness(s *metrics.Sink) {
	sent, failed := p.Heartbeats()
	s.Count(heartbeats, sent)
	s.Count(heartbeatFailures, failed)
	if p.Replicas.LastHeard() > 0 {
		s.Set(controllerAge, p.unheard().Seconds())
	}
}

func (p *Parts) collectDirs(s *metrics.Sink) {
	var offline int64
	for _, d := range p.Replicas.DirStats() {
		s.Flag(dirOnline, d.Online, d.Path)
		s.Durations(flushTime, d.Flushes, d.Path)
		if d.Waiting >= 0 {
			s.Count(flushQueue, int64(d.Waiting), d.Path)
		}
		if !d.Online {
			offline++
		}
		if d.TotalBytes >= 0 {
			s.Count(dirUsable, d.UsableBytes, d.Path)
			s.Count(dirTotal, d.TotalBytes, d.Path)
		}
	}
	s.Count(dirsOffline, offline)
}

// tally is the partitions of one broker, counted.
type tally struct {
	all, leading, under, belowMin, atMin, offline, moving, remnants int64

	topics map[string]*host.Traffic
}

func (p *Parts) collectReplicas(s *metrics.Sink, img *metadata.Image) {
	t := tally{topics: make(map[string]*host.Traffic)}
	for _, h := range p.Replicas.All() {
		t.add(s, h, img.PartitionByID(h.ID()))
	}
	s.Count(partitionCount, t.all)
	s.Count(leaderCount, t.leading)
	s.Count(underReplicated, t.under)
	s.Count(underMinISR, t.belowMin)
	s.Count(atMinISR, t.atMin)
	s.Count(offlineReplicas, t.offline)
	s.Count(remnants, t.remnants)
	s.Count(reassigning, t.moving)
	s.Count(stalledPartitions, int64(len(p.Replicas.Stalled())))
	for topic, sum := range t.topics { // order-free: a set of series
		s.Count(topicMessagesIn, sum.RecordsIn, topic)
		s.Count(topicBytesIn, sum.BytesIn, topic)
		s.Count(topicBytesOut, sum.BytesOut, topic)
		s.Count(topicProduces, sum.Produces, topic)
		s.Count(topicReplicationIn, sum.ReplicaBytesIn, topic)
		s.Count(topicReplicationOut, sum.ReplicaBytesOut, topic)
	}
	f := p.Replicas.FollowStats()
	s.Count(fetcherMaxLag, f.MaxLag)
	s.Count(fetcherLagging, int64(f.Lagging))
	s.Count(fetcherRequests, f.Requests)
	s.Count(fetcherFailures, f.Failures)
	s.Count(fetcherCorrupt, f.Corrupt)
	s.Count(fetcherOutOfRange, f.OutOfRange)
	c := p.Replicas.Stats()
	s.Count(isrExpands, c.ISRExpansions)
	s.Count(isrShrinks, c.ISRShrinks)
	s.Count(isrRefused, c.ISRRefusals)
	s.Count(led, c.Led)
	s.Count(followed, c.Followed)
	s.Count(cutOffs, c.CutOffs)
	s.Count(appendsRefused, c.AppendsRefused)
	s.Count(quarantined, c.Quarantined)
	s.Count(stalls, c.Stalls)
	s.Count(truncations, c.Truncations)
	s.Count(truncatedBytes, c.TruncatedBytes)
	s.Count(truncatedRecords, c.TruncatedRecords)
	s.Count(truncatedBelowHW, c.BelowHighWatermark)
	s.Count(droppedSegments, c.DroppedSegments)
	s.Count(droppedBytes, c.DroppedBytes)
	s.Flag(retentionHeld, c.RetentionHeld)
	k := p.Replicas.KeptStats()
	s.Count(receiptsWritten, k.Receipts)
	s.Count(receiptsUnwritten, k.Unwritten)
	s.Count(receiptsLost, k.Lost)
	s.Count(keptBytes, k.Bytes)
	s.Count(keptCopies, k.Copies)
	s.Count(keptDropped, k.Dropped)
	s.Count(keptNot, k.NotKept)
	p.collectCleaner(s)
	p.collectScrub(s)
}

func (p *Parts) collectScrub(s *metrics.Sink) {
	c := p.Replicas.ScrubStats()
	s.Count(scrubBytes, c.Bytes)
	s.Count(scrubSegments, c.Segments)
	s.Count(scrubDamaged, c.Damaged)
	s.Count(scrubFailures, c.Failures)
	s.Count(scrubRebuilt, c.Rebuilt)
	s.Count(scrubDerived, c.Derived)
	for _, dir := range slices.Sorted(maps.Keys(c.Oldest)) {
		s.Count(scrubOldest, int64(c.Oldest[dir].Seconds()), dir)
	}
}

func (p *Parts) collectCleaner(s *metrics.Sink) {
	c := p.Replicas.CleanerStats()
	s.Count(cleanerRuns, c.Runs)
	s.Count(cleanerFailures, c.Failures)
	s.Count(cleanerRead, c.BytesRead)
	s.Count(cleanerWritten, c.BytesWritten)
	s.Count(cleanerDropped, c.RecordsDropped)
	s.Count(cleanerRunning, int64(c.Running))
	s.Count(cleanerMaxDirty, c.MaxDirtyPercent)
	s.Count(cleanerSinceLook, c.SinceLook.Milliseconds())
	s.Count(cleanerBuffer, c.BufferPercent)
	s.Count(cleanerTook, int64(c.Took.Seconds()))
	for _, dir := range slices.Sorted(maps.Keys(c.Uncleanable)) {
		s.Count(uncleanablePartitions, int64(c.Uncleanable[dir].Partitions), dir)
		s.Count(uncleanableBytes, c.Uncleanable[dir].Bytes, dir)
	}
}

// add counts one replica and publishes what is its own. reg is nil once the
// cluster no longer knows the partition.
func (t *tally) add(s *metrics.Sink, h *host.Hosted, reg *metadata.PartitionRegistration) {
	topic, number, st := h.TopicPartition().Topic, strconv.Itoa(int(h.TopicPartition().Partition)), h.State()
	t.all++
	t.traffic(topic, h.Traffic())
	leads := st.Role == partition.Leader
	s.Flag(partitionIsLeader, leads, topic, number)
	if st.Role == partition.Offline {
		if st.Code == partition.CodeStorageError {
			t.offline++
		}
		if st.Remnant != nil {
			t.remnants++
			s.Count(remnantReadable, int64(st.Remnant.End), topic, number)
		}
		return
	}
	if st.View != nil {
		s.Count(logSize, st.View.Size(), topic, number)
	}
	s.Count(logStart, int64(st.LogStart), topic, number)
	s.Count(logEnd, int64(st.LogEnd), topic, number)
	s.Count(logHighWatermark, int64(st.HighWatermark), topic, number)
	s.Count(logLastStable, int64(st.LastStable), topic, number)
	s.Count(logUnsynced, max(0, int64(st.LogEnd.Sub(st.Durable))), topic, number)
	s.Count(partitionEpoch, int64(st.LeaderEpoch), topic, number)
	if !leads {
		s.Count(partitionLag, h.Lag(), topic, number)
		return
	}
	t.leading++
	lacking := len(st.ISR) < len(st.Replicas)
	switch {
	case len(st.ISR) < st.MinISR:
		t.belowMin++
	case len(st.ISR) == st.MinISR:
		t.atMin++
	}
	if lacking {
		t.under++
	}
	if reg != nil && reg.Reassigning() {
		t.moving++
	}
	s.Count(logLag, int64(st.LogEnd.Sub(st.HighWatermark)), topic, number)
	s.Count(partitionISR, int64(len(st.ISR)), topic, number)
	s.Count(partitionReplicas, int64(len(st.Replicas)), topic, number)
	s.Flag(partitionUnderReplicated, lacking, topic, number)
}

func (t *tally) traffic(topic string, more host.Traffic) {
	sum := t.topics[topic]
	if sum == nil {
		sum = new(host.Traffic)
		t.topics[topic] = sum
	}
	sum.Add(more)
}
