package dump

import (
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/checkpoint"
)

// Suffixes of files that are named by an offset.
const (
	logSuffix      = ".log"
	indexSuffix    = ".index"
	timeSuffix     = ".timeindex"
	txnSuffix      = ".txnindex"
	snapshotSuffix = ".snapshot"
	imageSuffix    = ".checkpoint"
	sealSuffix     = ".seal"
	damagedSuffix  = ".damaged"
)

// kind is what a file's name says of it.
type kind struct {
	// name is the kind's, for people and for JSON.
	name string
	// base is the offset in the name, NoOffset if there is none.
	base model.Offset
	// epoch is the second number in the name of a metadata snapshot.
	epoch model.LeaderEpoch
	// state is the suffix that marks the file as not, or no longer, in use.
	state string
	// show reads the file; nil for a name that is of no known kind.
	show func(d *dumper) error
}

// kindOf knows a file by its name. Suffixes that mark a file as being written,
// replaced or deleted don't change what it holds.
func kindOf(name string) kind {
	for _, state := range []string{".tmp", ".deleted", ".cleaned", ".swap"} {
		if stem, ok := strings.CutSuffix(name, state); ok {
			k := kindOf(stem)
			k.state = state + k.state
			return k
		}
	}
	none := kind{base: model.NoOffset, epoch: model.NoEpoch}
	switch name {
	case checkpoint.RecoveryPointFile, checkpoint.LogStartFile, checkpoint.HighWatermarkFile, checkpoint.CleanerFile,
		uncleanFile:
		none.name, none.show = "offset checkpoint", (*dumper).offsets
	case checkpoint.EpochFile:
		none.name, none.show = "leader epoch checkpoint", (*dumper).epochs
	case checkpoint.PartitionMetadataFile:
		none.name, none.show = "partition metadata", (*dumper).partition
	case checkpoint.CleanShutdownFile:
		none.name, none.show = "clean shutdown mark", (*dumper).shutdown
	case checkpoint.MetaPropertiesFile:
		none.name, none.show = "meta properties", (*dumper).meta
	case runFile:
		none.name, none.show = "run record", (*dumper).run
	case inventoryFile:
		none.name, none.show = "partition list", (*dumper).inventory
	case verifiedFile:
		none.name, none.show = "list of verified segments", (*dumper).verified
	case quorumFile:
		none.name, none.show = "quorum state", (*dumper).quorum
	case identityFile:
		none.name, none.show = "quorum identity", (*dumper).identity
	case observedFile:
		none.name, none.show = "observed metadata", (*dumper).observed
	case receiptFile:
		none.name, none.show = "receipt", (*dumper).receipts
	default:
		if isJournal(name) {
			none.name, none.show = "journal of receipts", (*dumper).receipts
			return none
		}
		return numbered(name)
	}
	return none
}

// numbered knows the files whose names begin with an offset.
func numbered(name string) kind {
	k := kind{base: model.NoOffset, epoch: model.NoEpoch}
	digits, rest, ok := strings.Cut(name, ".")
	if !ok {
		return k
	}
	suffix := "." + rest
	if suffix == imageSuffix {
		var epoch string
		digits, epoch, ok = strings.Cut(digits, "-")
		e, valid := number(epoch, 10, 32)
		if !ok || !valid {
			return k
		}
		k.epoch = model.LeaderEpoch(e)
	}
	base, ok := number(digits, 20, 64)
	if !ok {
		return k
	}
	switch suffix {
	case logSuffix:
		k.name, k.show = "segment", (*dumper).segment
	case imageSuffix:
		k.name, k.show = "metadata snapshot", (*dumper).segment
	case indexSuffix:
		k.name, k.show = "offset index", (*dumper).offsetIndex
	case timeSuffix:
		k.name, k.show = "time index", (*dumper).timeIndex
	case txnSuffix:
		k.name, k.show = "transaction index", (*dumper).txnIndex
	case sealSuffix:
		k.name, k.show = "seal", (*dumper).seal
	case damagedSuffix:
		k.name, k.show = "damage note", (*dumper).note
	case snapshotSuffix:
		k.name, k.show = "producer snapshot", (*dumper).producers
	}
	k.base = model.Offset(base)
	return k
}

// number reads a zero-padded number of exactly width digits.
func number(s string, width, bits int) (int64, bool) {
	if len(s) != width || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, bits)
	return n, err == nil
}
