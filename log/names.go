package log

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
)

// Suffixes of the files in a partition's directory. All but sealSuffix and
// damagedSuffix are Kafka's.
const (
	logSuffix      = ".log"
	indexSuffix    = ".index"
	timeSuffix     = ".timeindex"
	txnSuffix      = ".txnindex"
	snapshotSuffix = ".snapshot"
	sealSuffix     = ".seal"
	damagedSuffix  = ".damaged"

	// deletedSuffix marks what only awaits its unlinking.
	deletedSuffix = ".deleted"
	// cleanedSuffix marks output of a compaction that isn't complete.
	cleanedSuffix = ".cleaned"
	// swapSuffix marks complete output of a compaction that is about to replace
	// its sources.
	swapSuffix = ".swap"
	// tempSuffix marks a small file that is being written.
	tempSuffix = ".tmp"
)

// FailedNote is the name of a note that the disk refused a log (see NoteFailure).
const FailedNote = ".tidemark_failed"

// DamagedSuffix ends the name of a note of damage (see NoteDamage).
const DamagedSuffix = damagedSuffix

// Suffixes of partition directories that are no longer, or not yet, in use.
const (
	DeleteDirSuffix = "-delete"
	StrayDirSuffix  = "-stray"
	FutureDirSuffix = "-future"
)

// nameMax is the longest file name that the usual file systems take.
const nameMax = 255

// baseDigits is the width of an offset in a file name.
const baseDigits = 20

// fileName returns the name of the file of the given kind for an offset.
func fileName(base model.Offset, suffix string) string {
	return fmt.Sprintf("%0*d%s", baseDigits, int64(base), suffix)
}

// parseName splits a file name into its offset and suffix; false if it doesn't
// have the form.
func parseName(name string) (base model.Offset, suffix string, ok bool) {
	if len(name) <= baseDigits || name[baseDigits] != '.' {
		return 0, "", false
	}
	for i := range baseDigits {
		if name[i] < '0' || name[i] > '9' {
			return 0, "", false
		}
	}
	n, err := strconv.ParseInt(name[:baseDigits], 10, 64)
	if err != nil {
		return 0, "", false
	}
	return model.Offset(n), name[baseDigits:], true
}

// isIndexSuffix reports whether files of this kind mean nothing without the
// segment of the same offset.
func isIndexSuffix(suffix string) bool {
	switch suffix {
	case indexSuffix, timeSuffix, txnSuffix, sealSuffix, damagedSuffix:
		return true
	}
	return false
}

// DirName returns the name of a partition's directory.
func DirName(tp model.TopicPartition) string { return tp.String() }

// RetiredDirName returns the name that a partition's directory gets before it
// is deleted or set aside: <topic>-<n>.<unique>-delete or …-stray. The topic's
// name is shortened where the whole would be longer than a file name may be.
// unique is 32 hexadecimal digits in Kafka.
func RetiredDirName(tp model.TopicPartition, unique, suffix string) string {
	tail := fmt.Sprintf("-%d.%s%s", tp.Partition, unique, suffix)
	topic := tp.Topic
	if room := nameMax - len(tail); len(topic) > room {
		topic = topic[:room]
	}
	return topic + tail
}

// ParseDirName reads the name of a directory in a log directory. suffix is
// empty for a partition in use; for a retired or future one the topic's name
// may have been shortened. ok is false for every other name.
func ParseDirName(name string) (tp model.TopicPartition, suffix string, ok bool) {
	for _, s := range []string{DeleteDirSuffix, StrayDirSuffix, FutureDirSuffix} {
		if rest, found := strings.CutSuffix(name, s); found {
			// <topic>-<n>.<unique>; a topic's name may hold dots of its own.
			dot := strings.LastIndexByte(rest, '.')
			if dot < 0 {
				continue
			}
			name, suffix = rest[:dot], s
			break
		}
	}
	dash := strings.LastIndexByte(name, '-')
	if dash <= 0 || dash == len(name)-1 {
		return tp, "", false
	}
	n, err := strconv.ParseInt(name[dash+1:], 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != name[dash+1:] {
		return tp, "", false
	}
	return model.TopicPartition{Topic: name[:dash], Partition: int32(n)}, suffix, true
}
