package mutant

// Mutant is one planted bug.
type Mutant struct {
	// Name is the argument of On, lower case with dashes, the area first.
	Name string
	// Bug says what goes wrong when it is on.
	Bug string
}

// Names returns every mutant of the product, sorted by name.
func Names() []Mutant {
	return []Mutant{
		{"coord-replay-before-append", "a coordinator takes records into its state before they are in the log"},
		{"coord-visible-before-commit", "a coordinator shows what was appended and is not committed"},
		{"ctl-active-early", "the controller takes commands before an entry of its own term is applied"},
		{"ctl-alter-no-cas", "an ISR is changed on the word of a leader that knows an older one"},
		{"ctl-bootstrap-majority", "a voter bootstraps when only a majority of the listed voters has answered"},
		{"ctl-change-before-propose", "the image shows a command's effect before its records were proposed"},
		{"ctl-confirm-by-memory", "a controller confirms its term without asking the quorum"},
		{"ctl-confstate-apart", "the applied index at start is not that of the voter configuration"},
		{"ctl-damaged-elected", "a member whose replica is damaged or missing is elected as if it were empty"},
		{"ctl-elr-kept", "eligible leaders survive a change of min.insync.replicas"},
		{"ctl-expiry-first", "sessions end before the heartbeats that wait are handled"},
		{"ctl-hardstate-first", "term, vote and commit reach the disk before the entries they count"},
		{"ctl-isr-any-incarnation", "a member joins the ISR though it is not the incarnation that caught up"},
		{"ctl-no-epoch-bump", "a broker that comes back quickly leads on in the same epoch"},
		{"ctl-observer-falls-back", "an observer shows an image older than one it has shown in an earlier life"},
		{"ctl-power-keeps-seat", "a broker that lost power keeps its seats in ISR and ELR"},
		{"ctl-reply-by-index", "a reply is released by the index of an entry, whatever its term"},
		{"ctl-sole-reelected", "the sole ISR member keeps its seat through a loss of power, though others are eligible"},
		{"ctl-vote-lost", "term and vote are not written to the disk"},
		{"ctl-voters-apart", "a change of the voters is applied without the record of the new set"},
		{"ctl-wiped-votes", "a used node whose metadata is gone makes itself a new cluster"},
		{"group-commit-any-generation", "offsets are committed by members of an older generation"},
		{"group-generation-kept", "a rebalance ends without a new generation"},
		{"group-unreleased-given", "a member of a consumer group gets partitions that another has not given up"},
		{"host-acts-before-registration", "a broker leads and follows by an image that is older than its registration"},
		{"host-first-append-early", "a partition's first append doesn't wait until its directory is durable"},
		{"host-lost-made-anew", "a replica that the cluster counts on and whose log is gone is made anew, empty"},
		{"log-index-off-by-one", "an entry of the offset index points one batch too far"},
		{"log-keep-empty-epoch", "a truncation to the log's end keeps the epochs in which nothing was written"},
		{"log-no-cutback", "the bytes of a failed append stay in the segment"},
		{"log-retry-fsync", "a failed fsync is tried again on the same file, and believed"},
		{"log-rp-after-truncate", "the recovery point is lowered after the log was truncated"},
		{"log-rp-before-epoch-file", "the recovery point rises before the epoch file is durable"},
		{"log-skip-crc", "recovery doesn't compare the CRC of batches"},
		{"log-skip-dirsync", "a flush doesn't make the names of new segments durable"},
		{"log-skip-structure", "recovery doesn't compare the offsets and epochs of batches"},
		{"log-stale-flushed", "a flush that a truncation has overtaken raises the recovery point"},
		{"log-truncate-in-place", "a truncation cuts the file that readers are in, and appends to it"},
		{"loop-inline-overtakes", "a message is handled at once when the box is free, though others are queued"},
		{"loop-lost-wakeup", "an owner releases the box without looking for messages that came meanwhile"},
		{"part-accepts-newer-epoch", "a follower appends batches of an epoch above the one it fetched in"},
		{"part-ack-before-append", "a produce with acks=1 is answered before its append was carried out"},
		{"part-ack-before-hw", "a produce with acks=all is answered before the high watermark has passed it"},
		{"part-alter-before-image", "the answer to AlterPartition changes the ISR before the image has it"},
		{"part-alter-rereads-epoch", "a repeated AlterPartition carries the broker epochs known by then"},
		{"part-answer-by-offset", "an answer counts if offset and leader epoch match, whatever the last fetched epoch"},
		{"part-any-gap", "a follower appends a batch behind a gap in what was never compacted"},
		{"part-dup-acked-early", "a retried batch with acks=all is answered before the original is replicated"},
		{"part-expand-before-epoch-start", "a follower joins the ISR before it has the start of the leader's epoch"},
		{"part-expand-below-log-start", "a follower joins the ISR with records below the leader's log start, which nobody has compared"},
		{"part-fetch-before-fsync", "a follower that flushes before it acknowledges fetches before its fsync is done"},
		{"part-fetch-no-epoch-fence", "a leader answers followers of other epochs"},
		{"part-hw-ignores-pending-isr", "the high watermark passes a replica that is being added to the ISR"},
		{"part-isr-no-broker-epoch", "a proposed ISR doesn't say which incarnations it means"},
		{"part-lease-below-end", "a follower is not heard while another holds the high watermark back"},
		{"part-lease-outlives-append", "a follower's session still stands for fetches from the log's end after the end has moved"},
		{"part-lease-outside-isr", "a replica outside the ISR is not looked at while it has everything, so that it never joins"},
		{"part-lease-uncounted", "the fetches that a session stood for are forgotten when it ends"},
		{"part-no-kip279", "a leader answers a follower's unknown epoch with an offset alone"},
		{"part-retain-uncommitted", "retention gives up records above the high watermark"},
		{"part-truncate-to-hw", "a follower begins by truncating to its high watermark"},
		{"part-truncate-to-hw-no-epochs", "a follower without epochs begins by truncating to its high watermark"},
		{"shell-frame-reused", "a connection reads into a frame that a request still holds"},
	}
}
