package partition

// Code is an error code of the Kafka protocol.
type Code = int16

// The codes that a partition answers with.
const (
	CodeNone                    Code = 0
	CodeOffsetOutOfRange        Code = 1
	CodeUnknownTopicOrPartition Code = 3
	CodeLeaderNotAvailable      Code = 5
	CodeNotLeaderOrFollower     Code = 6
	CodeRequestTimedOut         Code = 7
	CodeRecordListTooLarge      Code = 18
	CodeNotEnoughReplicas       Code = 19
	CodeNotEnoughReplicasAfter  Code = 20
	CodeUnsupportedVersion      Code = 35
	CodePolicyViolation         Code = 44
	CodeOutOfOrderSequence      Code = 45
	CodeInvalidProducerEpoch    Code = 47
	CodeInvalidTxnState         Code = 48
	CodeStorageError            Code = 56
	CodeFencedLeaderEpoch       Code = 74
	CodeUnknownLeaderEpoch      Code = 75
	CodeOffsetNotAvailable      Code = 78
	codeMessageTooLarge         Code = 10
	codeCorruptMessage          Code = 2
	codeInvalidRequiredAcks     Code = 21
	codeOperationNotAttempted   Code = 55
	codeIneligibleReplica       Code = 107
	codeUnknownTopicID          Code = 100
	codeInvalidUpdateVersion    Code = 95
	codeInvalidRequest          Code = 42
	codeNewLeaderElected        Code = 108
	codeTransactionFenced       Code = 52
)

// hidesLogStart says whether a produce answer with this code carries log start
// -1. Kafka fills in the real log start for every other error.
func hidesLogStart(c Code) bool {
	switch c {
	case CodeUnknownTopicOrPartition, CodeNotLeaderOrFollower, codeMessageTooLarge,
		CodeRecordListTooLarge, codeCorruptMessage, codeInvalidRequiredAcks, CodeStorageError:
		return true
	}
	return false
}
