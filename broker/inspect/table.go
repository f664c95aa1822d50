package inspect

import "github.com/tidemark/tidemark/internal/metrics"

// What is published. The names of what Kafka counts too are those that its
// exporter for Prometheus makes of Kafka's beans.
const (
	buildInfo metrics.ID = iota
	nodeInfo
	brokerState
	goroutines

	partitionCount
	leaderCount
	underReplicated
	underMinISR
	atMinISR
	offlineReplicas
	reassigning
	stalledPartitions
	remnants
	remnantReadable

	isrExpands
	isrShrinks
	isrRefused
	led
	followed
	appendsRefused
	quarantined
	stalls
	truncations
	truncatedBytes
	truncatedRecords
	truncatedBelowHW
	droppedSegments
	droppedBytes
	retentionHeld

	receiptsWritten
	receiptsUnwritten
	receiptsLost
	keptBytes
	keptCopies
	keptDropped
	keptNot

	cleanerRuns
	cleanerFailures
	cleanerRead
	cleanerWritten
	cleanerDropped
	cleanerRunning
	cleanerMaxDirty
	cleanerSinceLook
	cleanerBuffer
	cleanerTook
	uncleanablePartitions
	uncleanableBytes

	scrubBytes
	scrubSegments
	scrubDamaged
	scrubFailures
	scrubRebuilt
	scrubDerived
	scrubOldest

	topicMessagesIn
	topicBytesIn
	topicBytesOut
	topicProduces
	topicReplicationIn
	topicReplicationOut

	logSize
	logStart
	logEnd
	logHighWatermark
	logLastStable
	logUnsynced
	logLag
	partitionEpoch
	partitionISR
	partitionReplicas
	partitionUnderReplicated
	partitionIsLeader

	fetcherMaxLag
	fetcherLagging
	fetcherRequests
	fetcherFailures
	fetcherCorrupt
	fetcherOutOfRange
	partitionLag

	requests
	requestTime
	requestBytes
	responseBytes
	requestErrors
	connections
	accepted
	refused
	badFrames
	panics
	frameMemory
	fetchSessions
	fetchSessionsEvicted

	dirOnline
	dirsOffline
	dirUsable
	dirTotal
	flushTime
	flushQueue

	peerConnects
	peerLost
	peerRequests
	peerAnswers
	peerBytesOut
	peerBytesIn
	heartbeats
	heartbeatFailures
	controllerAge
	cutOffs
	producesWaiting
	fetchesWaiting
	metadataFlushTime

	groupCount
	groupsEmpty
	groupsPreparing
	groupsCompleting
	groupsStable
	groupOffsets
	groupRebalances
	groupGenerations
	groupEvicted
	groupCommits
	groupExpired
	groupUnreadable
	groupLoads
	groupReloads
	groupLoadedRecords

	telemetryInstances
	telemetrySubscriptions
	telemetryPushes
	telemetryBytes
	telemetryLast
	telemetryUnknown
	telemetryThrottled
	telemetryRefused
	telemetryForgotten
	telemetryDisplaced

	loopWaiting
	loopWaitingMax

	metadataApplied
	metadataLag
	quorumLeader
	quorumEpoch
	quorumHighWatermark
	quorumVoters
	quorumLogEnd
	quorumAside

	activeController
	activeBrokers
	fencedBrokers
	globalTopics
	globalPartitions
	offlinePartitions
	preferredImbalance
	elected
	electedUnclean
	recoveryDropped
	leadersLost
)

// partitionLabels belong to what is published once for each partition.
var partitionLabels = []string{"topic", "partition"}

// peerLabels belong to what is published once for each other node and class of
// connection to it.
var peerLabels = []string{"node", "class"}

// table describes each metric at the index of its ID.
var table = [...]metrics.Metric{
	buildInfo:   {Name: "tidemark_build_info", Kind: metrics.Gauge, Labels: []string{"version"}, Help: "Always 1; the label is the version that runs"},
	nodeInfo:    {Name: "tidemark_node_info", Kind: metrics.Gauge, Labels: []string{"node", "cluster"}, Help: "Always 1; the labels are node.id and the cluster's id"},
	brokerState: {Name: "kafka_server_kafkaserver_brokerstate", Kind: metrics.Gauge, Help: "1 while starting, 2 while partitions are being loaded, 3 when registered and unfenced"},
	goroutines:  {Name: "tidemark_goroutines", Kind: metrics.Gauge, Labels: []string{"name"}, Help: "Goroutines of the node by what they do"},

	partitionCount:    {Name: "kafka_server_replicamanager_partitioncount", Kind: metrics.Gauge, Help: "Replicas that this broker hosts"},
	leaderCount:       {Name: "kafka_server_replicamanager_leadercount", Kind: metrics.Gauge, Help: "Partitions that this broker leads"},
	underReplicated:   {Name: "kafka_server_replicamanager_underreplicatedpartitions", Kind: metrics.Gauge, Help: "Partitions led here whose in-sync set lacks a replica"},
	underMinISR:       {Name: "kafka_server_replicamanager_underminisrpartitioncount", Kind: metrics.Gauge, Help: "Partitions led here whose in-sync set is smaller than min.insync.replicas: acks=all is refused"},
	atMinISR:          {Name: "kafka_server_replicamanager_atminisrpartitioncount", Kind: metrics.Gauge, Help: "Partitions led here that can't lose another in-sync replica without refusing acks=all"},
	offlineReplicas:   {Name: "kafka_server_replicamanager_offlinereplicacount", Kind: metrics.Gauge, Help: "Replicas of this broker that are offline because of damage or a failing disk"},
	reassigning:       {Name: "kafka_server_replicamanager_reassigningpartitions", Kind: metrics.Gauge, Help: "Partitions led here that are being moved"},
	stalledPartitions: {Name: "tidemark_partitions_stalled", Kind: metrics.Gauge, Help: "Partitions of this broker whose disk does not answer now"},
	remnants:          {Name: "tidemark_partitions_readable_below_damage", Kind: metrics.Gauge, Help: "Damaged partitions of which no better copy is in sync: they are led here, read below the damage, and take no writes"},
	remnantReadable:   {Name: "tidemark_partition_readable_below", Kind: metrics.Gauge, Help: "Of such a partition, the first offset that can't be read any more", Labels: partitionLabels},

	isrExpands:       {Name: "kafka_server_replicamanager_isrexpands_total", Kind: metrics.Counter, Help: "Replicas let into an in-sync set by leaders here"},
	isrShrinks:       {Name: "kafka_server_replicamanager_isrshrinks_total", Kind: metrics.Counter, Help: "In-sync sets that became smaller under leaders here"},
	isrRefused:       {Name: "kafka_server_replicamanager_failedisrupdates_total", Kind: metrics.Counter, Help: "Changes of an in-sync set that the controller refused"},
	led:              {Name: "tidemark_partition_leaderships_total", Kind: metrics.Counter, Help: "Times that a partition began to be led here"},
	followed:         {Name: "tidemark_partition_followerships_total", Kind: metrics.Counter, Help: "Times that a partition began to follow here"},
	appendsRefused:   {Name: "tidemark_log_appends_refused_total", Kind: metrics.Counter, Help: "Appends that a full disk refused; nothing of them was written"},
	quarantined:      {Name: "tidemark_partitions_quarantined_total", Kind: metrics.Counter, Help: "Partitions taken offline for damage or a failing disk, with their files as they were"},
	stalls:           {Name: "tidemark_disk_stalls_total", Kind: metrics.Counter, Help: "Writes that did not come back within tidemark.io.stall.timeout.ms"},
	truncations:      {Name: "tidemark_log_truncations_total", Kind: metrics.Counter, Help: "Cuts of a log's end, at a start or to follow a leader"},
	truncatedBytes:   {Name: "tidemark_log_truncated_bytes_total", Kind: metrics.Counter, Help: "Bytes that those cuts took"},
	truncatedRecords: {Name: "tidemark_log_truncated_records_total", Kind: metrics.Counter, Help: "Whole records that those cuts took"},
	truncatedBelowHW: {Name: "tidemark_log_truncations_below_high_watermark_total", Kind: metrics.Counter, Help: "Cuts that took records which had been exposed to consumers: a chosen unclean election, or a fault"},
	droppedSegments:  {Name: "tidemark_log_dropped_segments_total", Kind: metrics.Counter, Help: "Segments removed below their log's start: retention's work, or DeleteRecords'"},
	droppedBytes:     {Name: "tidemark_log_dropped_bytes_total", Kind: metrics.Counter, Help: "Bytes of those segments"},
	retentionHeld:    {Name: "tidemark_retention_by_age_held", Kind: metrics.Gauge, Help: "1 while nothing is removed for its age because the wall clock jumped by more than an hour less than a day ago"},

	receiptsWritten:   {Name: "tidemark_receipts_total", Kind: metrics.Counter, Help: "Receipts written for what left a log other than by retention, DeleteRecords, compaction or a topic's deletion"},
	receiptsUnwritten: {Name: "tidemark_receipts_unwritten", Kind: metrics.Gauge, Help: "Receipts that wait for a disk that takes them"},
	receiptsLost:      {Name: "tidemark_receipts_lost_total", Kind: metrics.Counter, Help: "Receipts that were given up because too many waited"},
	keptBytes:         {Name: "tidemark_kept_bytes", Kind: metrics.Gauge, Help: "Bytes cut from logs that are kept aside"},
	keptCopies:        {Name: "tidemark_kept_copies", Kind: metrics.Gauge, Help: "Receipts whose bytes are kept"},
	keptDropped:       {Name: "tidemark_kept_dropped_total", Kind: metrics.Counter, Help: "Kept copies that gave way to newer ones, to time, or to a full disk"},
	keptNot:           {Name: "tidemark_kept_refused_total", Kind: metrics.Counter, Help: "Receipts whose bytes were not kept: too many, or the disk did not take them"},

	cleanerRuns:           {Name: "tidemark_log_cleaner_runs_total", Kind: metrics.Counter, Help: "Compactions of a partition that were completed"},
	cleanerFailures:       {Name: "tidemark_log_cleaner_failures_total", Kind: metrics.Counter, Help: "Compactions after which their partition was left uncleaned: damage, or a failing disk"},
	cleanerRead:           {Name: "tidemark_log_cleaner_read_bytes_total", Kind: metrics.Counter, Help: "Bytes that compaction has read, in both passes"},
	cleanerWritten:        {Name: "tidemark_log_cleaner_written_bytes_total", Kind: metrics.Counter, Help: "Bytes that compaction has written"},
	cleanerDropped:        {Name: "tidemark_log_cleaner_dropped_records_total", Kind: metrics.Counter, Help: "Records that compaction has left out"},
	cleanerRunning:        {Name: "tidemark_log_cleaner_running", Kind: metrics.Gauge, Help: "Partitions that are being compacted"},
	cleanerMaxDirty:       {Name: "kafka_log_logcleanermanager_max_dirty_percent", Kind: metrics.Gauge, Help: "Uncleaned part of the dirtiest compacted partition at the cleaner's last look"},
	cleanerSinceLook:      {Name: "kafka_log_logcleanermanager_time_since_last_run_ms", Kind: metrics.Gauge, Help: "Milliseconds since the cleaner looked for something to do"},
	cleanerBuffer:         {Name: "kafka_log_logcleaner_max_buffer_utilization_percent", Kind: metrics.Gauge, Help: "How full the memory for keys was in the last compaction"},
	cleanerTook:           {Name: "kafka_log_logcleaner_max_clean_time_secs", Kind: metrics.Gauge, Help: "Seconds that the last compaction took"},
	uncleanablePartitions: {Name: "kafka_log_logcleanermanager_uncleanable_partitions_count", Kind: metrics.Gauge, Labels: []string{"dir"}, Help: "Partitions that can't be compacted before the broker starts again"},
	uncleanableBytes:      {Name: "kafka_log_logcleanermanager_uncleanable_bytes", Kind: metrics.Gauge, Labels: []string{"dir"}, Help: "Bytes of those partitions"},

	scrubBytes:    {Name: "tidemark_scrub_bytes_total", Kind: metrics.Counter, Help: "Bytes of sealed segments that were read to be checked"},
	scrubSegments: {Name: "tidemark_scrub_segments_total", Kind: metrics.Counter, Help: "Sealed segments that were checked and found in order"},
	scrubDamaged:  {Name: "tidemark_scrub_damaged_segments_total", Kind: metrics.Counter, Help: "Sealed segments in which damage was found; each is read once more, and its replica quarantined if that finds the same"},
	scrubFailures: {Name: "tidemark_scrub_failures_total", Kind: metrics.Counter, Help: "Checks of a segment that a disk's error ended"},
	scrubRebuilt:  {Name: "tidemark_scrub_rebuilt_files_total", Kind: metrics.Counter, Help: "Indexes and seals beside sealed segments that were wrong, and made anew"},
	scrubDerived:  {Name: "tidemark_scrub_digests_derived_total", Kind: metrics.Counter, Help: "Segments that came without a digest of what was written, and have got one of what was read"},
	scrubOldest:   {Name: "tidemark_scrub_oldest_seconds", Kind: metrics.Gauge, Labels: []string{"dir"}, Help: "How long ago the segment of a log directory was checked of which it is longest; of one that never was, since it was first seen"},

	topicMessagesIn:     {Name: "kafka_server_brokertopicmetrics_messagesin_total", Kind: metrics.Counter, Labels: []string{"topic"}, Help: "Records appended for producers"},
	topicBytesIn:        {Name: "kafka_server_brokertopicmetrics_bytesin_total", Kind: metrics.Counter, Labels: []string{"topic"}, Help: "Bytes appended for producers"},
	topicBytesOut:       {Name: "kafka_server_brokertopicmetrics_bytesout_total", Kind: metrics.Counter, Labels: []string{"topic"}, Help: "Record bytes answered to consumers"},
	topicProduces:       {Name: "kafka_server_brokertopicmetrics_totalproducerequests_total", Kind: metrics.Counter, Labels: []string{"topic"}, Help: "Batches appended for producers"},
	topicReplicationIn:  {Name: "kafka_server_brokertopicmetrics_replicationbytesin_total", Kind: metrics.Counter, Labels: []string{"topic"}, Help: "Bytes appended by following"},
	topicReplicationOut: {Name: "kafka_server_brokertopicmetrics_replicationbytesout_total", Kind: metrics.Counter, Labels: []string{"topic"}, Help: "Record bytes answered to followers"},

	logSize:                  {Name: "kafka_log_log_size", Kind: metrics.Gauge, Labels: partitionLabels, Help: "Bytes of the replica's segments"},
	logStart:                 {Name: "kafka_log_log_logstartoffset", Kind: metrics.Gauge, Labels: partitionLabels, Help: "First offset of the replica's log"},
	logEnd:                   {Name: "kafka_log_log_logendoffset", Kind: metrics.Gauge, Labels: partitionLabels, Help: "Offset that the replica's next record will get"},
	logHighWatermark:         {Name: "tidemark_log_high_watermark", Kind: metrics.Gauge, Labels: partitionLabels, Help: "End of what every in-sync replica is known to hold"},
	logLastStable:            {Name: "tidemark_log_last_stable_offset", Kind: metrics.Gauge, Labels: partitionLabels, Help: "End of what a read_committed consumer may read"},
	logUnsynced:              {Name: "tidemark_log_unsynced_offsets", Kind: metrics.Gauge, Labels: partitionLabels, Help: "Offsets of this replica that a power failure here could take"},
	logLag:                   {Name: "tidemark_log_uncommitted_offsets", Kind: metrics.Gauge, Labels: partitionLabels, Help: "On the leader: how far the slowest in-sync follower is behind the log's end"},
	partitionEpoch:           {Name: "tidemark_partition_leader_epoch", Kind: metrics.Gauge, Labels: partitionLabels, Help: "Leader epoch that the replica is in"},
	partitionISR:             {Name: "kafka_cluster_partition_insyncreplicascount", Kind: metrics.Gauge, Labels: partitionLabels, Help: "On the leader: members of the in-sync set"},
	partitionReplicas:        {Name: "kafka_cluster_partition_replicascount", Kind: metrics.Gauge, Labels: partitionLabels, Help: "On the leader: assigned replicas"},
	partitionUnderReplicated: {Name: "kafka_cluster_partition_underreplicated", Kind: metrics.Gauge, Labels: partitionLabels, Help: "On the leader: 1 if the in-sync set lacks a replica"},
	partitionIsLeader:        {Name: "tidemark_partition_leader", Kind: metrics.Gauge, Labels: partitionLabels, Help: "1 if the partition is led here"},

	fetcherMaxLag:     {Name: "kafka_server_replicafetchermanager_maxlag", Kind: metrics.Gauge, Help: "Records below its leader's high watermark that the slowest follower here lacks"},
	fetcherLagging:    {Name: "tidemark_followers_lagging", Kind: metrics.Gauge, Help: "Partitions that follow here and lack something below their leader's high watermark"},
	fetcherRequests:   {Name: "kafka_server_fetcherstats_requests_total", Kind: metrics.Counter, Help: "Fetches sent to leaders"},
	fetcherFailures:   {Name: "tidemark_fetcher_failures_total", Kind: metrics.Counter, Help: "Fetches to leaders that failed, the first of each row of failures"},
	fetcherCorrupt:    {Name: "tidemark_fetcher_corrupt_total", Kind: metrics.Counter, Help: "Answers of leaders whose records were damaged; nothing of them was appended"},
	fetcherOutOfRange: {Name: "tidemark_fetcher_out_of_range_total", Kind: metrics.Counter, Help: "Followers here whose log's end lay outside their leader's log"},
	partitionLag:      {Name: "kafka_server_fetcherlagmetrics_consumerlag", Kind: metrics.Gauge, Labels: partitionLabels, Help: "On a follower: records below the leader's high watermark that it lacks"},

	requests:             {Name: "kafka_network_requestmetrics_requests_total", Kind: metrics.Counter, Labels: []string{"request"}, Help: "Requests answered"},
	requestTime:          {Name: "tidemark_request_duration_seconds", Kind: metrics.Durations, Labels: []string{"request"}, Help: "From the reading of a request to the end of the writing of its answer, waiting for data or replicas included"},
	requestBytes:         {Name: "tidemark_request_bytes_total", Kind: metrics.Counter, Labels: []string{"request"}, Help: "Bytes of those requests"},
	responseBytes:        {Name: "tidemark_response_bytes_total", Kind: metrics.Counter, Labels: []string{"request"}, Help: "Bytes of their answers"},
	requestErrors:        {Name: "kafka_network_requestmetrics_errors_total", Kind: metrics.Counter, Labels: []string{"request", "error"}, Help: "Error codes in answers: of the whole request, of a partition or of whatever else one names, each counted"},
	connections:          {Name: "kafka_server_socket_server_metrics_connection_count", Kind: metrics.Gauge, Help: "Open connections"},
	accepted:             {Name: "tidemark_connections_accepted_total", Kind: metrics.Counter, Help: "Connections accepted"},
	refused:              {Name: "tidemark_connections_refused_total", Kind: metrics.Counter, Help: "Connections closed at once, being too many of one address"},
	badFrames:            {Name: "tidemark_connections_bad_total", Kind: metrics.Counter, Help: "Connections closed for what they sent"},
	panics:               {Name: "tidemark_request_panics_total", Kind: metrics.Counter, Help: "Connections closed because a request's handler failed"},
	frameMemory:          {Name: "tidemark_request_memory_bytes", Kind: metrics.Gauge, Help: "Memory of requests that are being read or handled"},
	fetchSessions:        {Name: "kafka_server_fetchsessioncache_numincrementalfetchsessions", Kind: metrics.Gauge, Help: "Fetch sessions in the cache"},
	fetchSessionsEvicted: {Name: "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total", Kind: metrics.Counter, Help: "Fetch sessions that made room for others"},

	dirOnline:   {Name: "tidemark_log_dir_online", Kind: metrics.Gauge, Labels: []string{"dir"}, Help: "1 while the log directory is in use, 0 once its disk has failed"},
	dirsOffline: {Name: "kafka_log_logmanager_offlinelogdirectorycount", Kind: metrics.Gauge, Help: "Log directories whose disk has failed"},
	dirUsable:   {Name: "tidemark_log_dir_usable_bytes", Kind: metrics.Gauge, Labels: []string{"dir"}, Help: "Free space of the directory's file system"},
	dirTotal:    {Name: "tidemark_log_dir_total_bytes", Kind: metrics.Gauge, Labels: []string{"dir"}, Help: "Size of the directory's file system"},
	flushTime:   {Name: "tidemark_fsync_duration_seconds", Kind: metrics.Durations, Labels: []string{"dir"}, Help: "Flushes of partitions' logs to the disk"},
	flushQueue:  {Name: "tidemark_fsync_queue", Kind: metrics.Gauge, Labels: []string{"dir"}, Help: "Flushes that wait for the disk"},

	peerConnects: {Name: "tidemark_peer_connects_total", Kind: metrics.Counter, Labels: peerLabels, Help: "Attempts to connect to another node"},
	peerLost:     {Name: "tidemark_peer_connections_lost_total", Kind: metrics.Counter, Labels: peerLabels, Help: "Those that failed, and connections that broke"},
	peerRequests: {Name: "tidemark_peer_requests_total", Kind: metrics.Counter, Labels: peerLabels, Help: "Requests sent to another node"},
	peerAnswers:  {Name: "tidemark_peer_answers_total", Kind: metrics.Counter, Labels: peerLabels, Help: "Answers to them; the rest is under way, or was lost"},
	peerBytesOut: {Name: "tidemark_peer_sent_bytes_total", Kind: metrics.Counter, Labels: peerLabels, Help: "Bytes of those requests"},
	peerBytesIn:  {Name: "tidemark_peer_received_bytes_total", Kind: metrics.Counter, Labels: peerLabels, Help: "Bytes of those answers"},

	heartbeats:        {Name: "tidemark_heartbeats_total", Kind: metrics.Counter, Help: "Heartbeats sent to the active controller"},
	heartbeatFailures: {Name: "tidemark_heartbeat_failures_total", Kind: metrics.Counter, Help: "Heartbeats and registrations that had no answer, or a refusal"},
	controllerAge:     {Name: "tidemark_controller_heard_age_seconds", Kind: metrics.Gauge, Help: "Time since this broker heard a controller whose term a quorum had confirmed"},
	cutOffs:           {Name: "tidemark_partition_cut_offs_total", Kind: metrics.Counter, Help: "Times that a leader here stopped taking writes because it heard neither a controller nor its followers"},
	producesWaiting:   {Name: "tidemark_produces_waiting", Kind: metrics.Gauge, Help: "Batches that wait for replicas or for the disk"},
	fetchesWaiting:    {Name: "tidemark_fetches_waiting", Kind: metrics.Gauge, Help: "Fetches that wait for data"},
	metadataFlushTime: {Name: "tidemark_metadata_fsync_duration_seconds", Kind: metrics.Durations, Help: "Flushes of the metadata log to the disk"},

	groupCount:         {Name: "kafka_coordinator_group_groupmetadatamanager_numgroups", Kind: metrics.Gauge, Help: "Groups whose coordinator this broker is"},
	groupsEmpty:        {Name: "kafka_coordinator_group_groupmetadatamanager_numgroupsempty", Kind: metrics.Gauge, Help: "Those without members"},
	groupsPreparing:    {Name: "kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance", Kind: metrics.Gauge, Help: "Those that wait for members to join"},
	groupsCompleting:   {Name: "kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance", Kind: metrics.Gauge, Help: "Those that wait for their leader's assignment"},
	groupsStable:       {Name: "kafka_coordinator_group_groupmetadatamanager_numgroupsstable", Kind: metrics.Gauge, Help: "Those whose members have their assignments"},
	groupOffsets:       {Name: "kafka_coordinator_group_groupmetadatamanager_numoffsets", Kind: metrics.Gauge, Help: "Committed offsets of those groups"},
	groupRebalances:    {Name: "tidemark_group_rebalances_total", Kind: metrics.Counter, Help: "Rebalances that began"},
	groupGenerations:   {Name: "kafka_server_group_coordinator_metrics_group_completed_rebalance_count", Kind: metrics.Counter, Help: "Rebalances whose joining phase ended in another generation"},
	groupEvicted:       {Name: "tidemark_group_members_evicted_total", Kind: metrics.Counter, Help: "Members put out because they were not heard of, or did not join or sync in time"},
	groupCommits:       {Name: "kafka_server_group_coordinator_metrics_offset_commit_count", Kind: metrics.Counter, Help: "Offsets committed"},
	groupExpired:       {Name: "kafka_server_group_coordinator_metrics_offset_expiration_count", Kind: metrics.Counter, Help: "Offsets removed because their time was over"},
	groupUnreadable:    {Name: "tidemark_group_records_unreadable_total", Kind: metrics.Counter, Help: "Records of groups that could not be read when they were loaded; their keys are lost"},
	groupLoads:         {Name: "tidemark_group_loads_total", Kind: metrics.Counter, Help: "Partitions of groups loaded because this broker came to lead them"},
	groupReloads:       {Name: "tidemark_group_reloads_total", Kind: metrics.Counter, Help: "Those loaded again because the log held what the coordinator did not write, or an assertion failed"},
	groupLoadedRecords: {Name: "tidemark_group_loaded_records_total", Kind: metrics.Counter, Help: "Records read for that"},

	telemetryInstances:     {Name: "kafka_server_client_metrics_instance_count", Kind: metrics.Gauge, Help: "Clients that ask which of their metrics are wanted, or push them, remembered here"},
	telemetrySubscriptions: {Name: "tidemark_client_telemetry_subscriptions", Kind: metrics.Gauge, Help: "Subscriptions to clients' metrics"},
	telemetryPushes:        {Name: "tidemark_client_telemetry_pushes_total", Kind: metrics.Counter, Help: "Pushes of their metrics that clients made and that were taken"},
	telemetryBytes:         {Name: "tidemark_client_telemetry_bytes_total", Kind: metrics.Counter, Help: "Bytes of metrics in those pushes, compressed as they came"},
	telemetryLast:          {Name: "tidemark_client_telemetry_last_pushes_total", Kind: metrics.Counter, Help: "Those pushes that were a client's last before it ended"},
	telemetryUnknown:       {Name: "kafka_server_client_metrics_unknown_subscription_request_count", Kind: metrics.Counter, Help: "Pushes for a subscription that is not the client's, most often because the subscriptions were changed"},
	telemetryThrottled:     {Name: "tidemark_client_telemetry_throttled_total", Kind: metrics.Counter, Help: "Requests about telemetry that came before their time"},
	telemetryRefused:       {Name: "tidemark_client_telemetry_refused_total", Kind: metrics.Counter, Help: "Pushes refused for their codec, their size, or as coming from nobody or after the last one"},
	telemetryForgotten:     {Name: "tidemark_client_telemetry_forgotten_total", Kind: metrics.Counter, Help: "Clients that were forgotten because nothing was heard of them"},
	telemetryDisplaced:     {Name: "tidemark_client_telemetry_displaced_total", Kind: metrics.Counter, Help: "Clients that were forgotten because too many others came"},

	loopWaiting:    {Name: "tidemark_loop_messages_waiting", Kind: metrics.Gauge, Labels: []string{"loop"}, Help: "Messages that wait for a loop; those of all partitions together"},
	loopWaitingMax: {Name: "tidemark_loop_messages_waiting_max", Kind: metrics.Gauge, Help: "Messages that wait for the partition that has most of them"},

	metadataApplied:     {Name: "kafka_server_broker_metadata_metrics_last_applied_record_offset", Kind: metrics.Gauge, Help: "Metadata offset that is in force on this broker's partitions"},
	metadataLag:         {Name: "tidemark_metadata_lag_offsets", Kind: metrics.Gauge, Help: "Committed metadata, as far as this node knows, that is not in force here yet"},
	quorumLeader:        {Name: "kafka_server_raft_metrics_current_leader", Kind: metrics.Gauge, Help: "Node id of the metadata quorum's leader, -1 if none is known"},
	quorumEpoch:         {Name: "kafka_server_raft_metrics_current_epoch", Kind: metrics.Gauge, Help: "Term of the metadata quorum"},
	quorumHighWatermark: {Name: "kafka_server_raft_metrics_high_watermark", Kind: metrics.Gauge, Help: "End of the committed metadata log"},
	quorumVoters:        {Name: "kafka_server_raft_metrics_number_of_voters", Kind: metrics.Gauge, Help: "Members of the metadata quorum"},
	quorumLogEnd:        {Name: "tidemark_quorum_log_end_offset", Kind: metrics.Gauge, Labels: []string{"node"}, Help: "End of a voter's metadata log, as the leader knows it"},
	quorumAside:         {Name: "tidemark_quorum_aside", Kind: metrics.Gauge, Help: "1 on a voter that takes no part because the disk of its metadata log is full"},

	activeController:   {Name: "kafka_controller_kafkacontroller_activecontrollercount", Kind: metrics.Gauge, Help: "1 on the active controller, 0 elsewhere"},
	activeBrokers:      {Name: "kafka_controller_kafkacontroller_activebrokercount", Kind: metrics.Gauge, Help: "Brokers that may lead"},
	fencedBrokers:      {Name: "kafka_controller_kafkacontroller_fencedbrokercount", Kind: metrics.Gauge, Help: "Registered brokers that are not heard of or not ready"},
	globalTopics:       {Name: "kafka_controller_kafkacontroller_globaltopiccount", Kind: metrics.Gauge, Help: "Topics of the cluster"},
	globalPartitions:   {Name: "kafka_controller_kafkacontroller_globalpartitioncount", Kind: metrics.Gauge, Help: "Partitions of the cluster"},
	offlinePartitions:  {Name: "kafka_controller_kafkacontroller_offlinepartitionscount", Kind: metrics.Gauge, Help: "Partitions of the cluster that have no leader"},
	preferredImbalance: {Name: "kafka_controller_kafkacontroller_preferredreplicaimbalancecount", Kind: metrics.Gauge, Help: "Partitions of the cluster that their first replica doesn't lead"},
	elected:            {Name: "tidemark_leader_elections_total", Kind: metrics.Counter, Help: "Elections of another leader that this node has seen in the metadata log"},
	electedUnclean:     {Name: "tidemark_leader_elections_unclean_total", Kind: metrics.Counter, Help: "Those of a replica that was neither in sync nor known to hold everything committed"},
	recoveryDropped:    {Name: "tidemark_unclean_recovery_dropped_records_total", Kind: metrics.Counter, Help: "Records that the leader elected after a loss of power of all members lacks and another of them reported"},
	leadersLost:        {Name: "tidemark_leaders_lost_total", Kind: metrics.Counter, Help: "Times that a partition was left without a leader"},
}

// Table returns what is published; read only.
func Table() []metrics.Metric { return table[:] }
