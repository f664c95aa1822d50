package coordinator

// Code is an error code of the Kafka protocol.
type Code = int16

// The codes that the runtime answers and maps.
const (
	CodeUnknownServerError        Code = -1
	CodeNone                      Code = 0
	CodeUnknownTopicOrPartition   Code = 3
	CodeNotLeaderOrFollower       Code = 6
	CodeRequestTimedOut           Code = 7
	CodeMessageTooLarge           Code = 10
	CodeCoordinatorLoadInProgress Code = 14
	CodeCoordinatorNotAvailable   Code = 15
	CodeNotCoordinator            Code = 16
	CodeRecordListTooLarge        Code = 18
	CodeNotEnoughReplicas         Code = 19
	CodeNotEnoughReplicasAfter    Code = 20
	CodeStorageError              Code = 56
)

// ClientCode turns what a partition answered to an append into what a client of
// the coordinator is told: it asked for no topic, so errors of one mean that the
// coordinator can't serve, or has moved.
func ClientCode(c Code) Code {
	switch c {
	case CodeNone, CodeCoordinatorLoadInProgress, CodeCoordinatorNotAvailable, CodeNotCoordinator:
		return c
	case CodeUnknownTopicOrPartition, CodeNotEnoughReplicas, CodeNotEnoughReplicasAfter, CodeRequestTimedOut:
		return CodeCoordinatorNotAvailable
	case CodeNotLeaderOrFollower, CodeStorageError:
		return CodeNotCoordinator
	}
	return CodeUnknownServerError
}
