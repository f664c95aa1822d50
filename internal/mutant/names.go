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
		{"ctl-active-early", "the controller takes commands before an entry of its own term is applied"},
		{"ctl-change-before-propose", "the image shows a command's effect before its records were proposed"},
		{"ctl-confstate-apart", "the applied index at start is not that of the voter configuration"},
		{"ctl-hardstate-first", "term, vote and commit reach the disk before the entries they count"},
		{"ctl-reply-by-index", "a reply is released by the index of an entry, whatever its term"},
		{"ctl-wiped-votes", "a used node whose metadata is gone makes itself a new cluster"},
		{"log-index-off-by-one", "an entry of the offset index points one batch too far"},
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
		{"part-ack-before-append", "a produce with acks=1 is answered before its append was carried out"},
		{"part-dup-acked-early", "a retried batch with acks=all is answered before the original is replicated"},
		{"part-hw-ignores-pending-isr", "the high watermark passes a replica that is being added to the ISR"},
		{"shell-frame-reused", "a connection reads into a frame that a request still holds"},
	}
}
