package protocol

// Code is an error code of the Kafka protocol, as it stands in a response.
type Code = int16

// The error codes of the protocol, by the names Kafka gives them. Source: the
// "Error Codes" table of the Kafka protocol guide; a code once given is never
// given another meaning.
const (
	CodeUnknownServerError                 Code = -1
	CodeNone                               Code = 0
	CodeOffsetOutOfRange                   Code = 1
	CodeCorruptMessage                     Code = 2
	CodeUnknownTopicOrPartition            Code = 3
	CodeInvalidFetchSize                   Code = 4
	CodeLeaderNotAvailable                 Code = 5
	CodeNotLeaderOrFollower                Code = 6
	CodeRequestTimedOut                    Code = 7
	CodeBrokerNotAvailable                 Code = 8
	CodeReplicaNotAvailable                Code = 9
	CodeMessageTooLarge                    Code = 10
	CodeStaleControllerEpoch               Code = 11
	CodeOffsetMetadataTooLarge             Code = 12
	CodeNetworkException                   Code = 13
	CodeCoordinatorLoadInProgress          Code = 14
	CodeCoordinatorNotAvailable            Code = 15
	CodeNotCoordinator                     Code = 16
	CodeInvalidTopicException              Code = 17
	CodeRecordListTooLarge                 Code = 18
	CodeNotEnoughReplicas                  Code = 19
	CodeNotEnoughReplicasAfterAppend       Code = 20
	CodeInvalidRequiredAcks                Code = 21
	CodeIllegalGeneration                  Code = 22
	CodeInconsistentGroupProtocol          Code = 23
	CodeInvalidGroupID                     Code = 24
	CodeUnknownMemberID                    Code = 25
	CodeInvalidSessionTimeout              Code = 26
	CodeRebalanceInProgress                Code = 27
	CodeInvalidCommitOffsetSize            Code = 28
	CodeTopicAuthorizationFailed           Code = 29
	CodeGroupAuthorizationFailed           Code = 30
	CodeClusterAuthorizationFailed         Code = 31
	CodeInvalidTimestamp                   Code = 32
	CodeUnsupportedSASLMechanism           Code = 33
	CodeIllegalSASLState                   Code = 34
	CodeUnsupportedVersion                 Code = 35
	CodeTopicAlreadyExists                 Code = 36
	CodeInvalidPartitions                  Code = 37
	CodeInvalidReplicationFactor           Code = 38
	CodeInvalidReplicaAssignment           Code = 39
	CodeInvalidConfig                      Code = 40
	CodeNotController                      Code = 41
	CodeInvalidRequest                     Code = 42
	CodeUnsupportedForMessageFormat        Code = 43
	CodePolicyViolation                    Code = 44
	CodeOutOfOrderSequenceNumber           Code = 45
	CodeDuplicateSequenceNumber            Code = 46
	CodeInvalidProducerEpoch               Code = 47
	CodeInvalidTxnState                    Code = 48
	CodeInvalidProducerIDMapping           Code = 49
	CodeInvalidTransactionTimeout          Code = 50
	CodeConcurrentTransactions             Code = 51
	CodeTransactionCoordinatorFenced       Code = 52
	CodeTransactionalIDAuthorizationFailed Code = 53
	CodeSecurityDisabled                   Code = 54
	CodeOperationNotAttempted              Code = 55
	CodeKafkaStorageError                  Code = 56
	CodeLogDirNotFound                     Code = 57
	CodeSASLAuthenticationFailed           Code = 58
	CodeUnknownProducerID                  Code = 59
	CodeReassignmentInProgress             Code = 60
	CodeDelegationTokenAuthDisabled        Code = 61
	CodeDelegationTokenNotFound            Code = 62
	CodeDelegationTokenOwnerMismatch       Code = 63
	CodeDelegationTokenRequestNotAllowed   Code = 64
	CodeDelegationTokenAuthorizationFailed Code = 65
	CodeDelegationTokenExpired             Code = 66
	CodeInvalidPrincipalType               Code = 67
	CodeNonEmptyGroup                      Code = 68
	CodeGroupIDNotFound                    Code = 69
	CodeFetchSessionIDNotFound             Code = 70
	CodeInvalidFetchSessionEpoch           Code = 71
	CodeListenerNotFound                   Code = 72
	CodeTopicDeletionDisabled              Code = 73
	CodeFencedLeaderEpoch                  Code = 74
	CodeUnknownLeaderEpoch                 Code = 75
	CodeUnsupportedCompressionType         Code = 76
	CodeStaleBrokerEpoch                   Code = 77
	CodeOffsetNotAvailable                 Code = 78
	CodeMemberIDRequired                   Code = 79
	CodePreferredLeaderNotAvailable        Code = 80
	CodeGroupMaxSizeReached                Code = 81
	CodeFencedInstanceID                   Code = 82
	CodeEligibleLeadersNotAvailable        Code = 83
	CodeElectionNotNeeded                  Code = 84
	CodeNoReassignmentInProgress           Code = 85
	CodeGroupSubscribedToTopic             Code = 86
	CodeInvalidRecord                      Code = 87
	CodeUnstableOffsetCommit               Code = 88
	CodeThrottlingQuotaExceeded            Code = 89
	CodeProducerFenced                     Code = 90
	CodeResourceNotFound                   Code = 91
	CodeDuplicateResource                  Code = 92
	CodeUnacceptableCredential             Code = 93
	CodeInconsistentVoterSet               Code = 94
	CodeInvalidUpdateVersion               Code = 95
	CodeFeatureUpdateFailed                Code = 96
	CodePrincipalDeserializationFailure    Code = 97
	CodeSnapshotNotFound                   Code = 98
	CodePositionOutOfRange                 Code = 99
	CodeUnknownTopicID                     Code = 100
	CodeDuplicateBrokerRegistration        Code = 101
	CodeBrokerIDNotRegistered              Code = 102
	CodeInconsistentTopicID                Code = 103
	CodeInconsistentClusterID              Code = 104
	CodeTransactionalIDNotFound            Code = 105
	CodeFetchSessionTopicIDError           Code = 106
	CodeIneligibleReplica                  Code = 107
	CodeNewLeaderElected                   Code = 108
	CodeOffsetMovedToTieredStorage         Code = 109
	CodeFencedMemberEpoch                  Code = 110
	CodeUnreleasedInstanceID               Code = 111
	CodeUnsupportedAssignor                Code = 112
	CodeStaleMemberEpoch                   Code = 113
	CodeMismatchedEndpointType             Code = 114
	CodeUnsupportedEndpointType            Code = 115
	CodeUnknownControllerID                Code = 116
	CodeUnknownSubscriptionID              Code = 117
	CodeTelemetryTooLarge                  Code = 118
	CodeInvalidRegistration                Code = 119
	CodeTransactionAbortable               Code = 120
	CodeInvalidRecordState                 Code = 121
	CodeShareSessionNotFound               Code = 122
	CodeInvalidShareSessionEpoch           Code = 123
	CodeFencedStateEpoch                   Code = 124
	CodeInvalidVoterKey                    Code = 125
	CodeDuplicateVoter                     Code = 126
	CodeVoterNotFound                      Code = 127
	CodeInvalidRegularExpression           Code = 128
	CodeRebootstrapRequired                Code = 129
	CodeStreamsInvalidTopology             Code = 130
	CodeStreamsInvalidTopologyEpoch        Code = 131
	CodeStreamsTopologyFenced              Code = 132
	CodeShareSessionLimitReached           Code = 133
)

// codeNames holds the protocol's own spelling of each code, at index code+1.
var codeNames = [...]string{
	0:   "UNKNOWN_SERVER_ERROR",
	1:   "NONE",
	2:   "OFFSET_OUT_OF_RANGE",
	3:   "CORRUPT_MESSAGE",
	4:   "UNKNOWN_TOPIC_OR_PARTITION",
	5:   "INVALID_FETCH_SIZE",
	6:   "LEADER_NOT_AVAILABLE",
	7:   "NOT_LEADER_OR_FOLLOWER",
	8:   "REQUEST_TIMED_OUT",
	9:   "BROKER_NOT_AVAILABLE",
	10:  "REPLICA_NOT_AVAILABLE",
	11:  "MESSAGE_TOO_LARGE",
	12:  "STALE_CONTROLLER_EPOCH",
	13:  "OFFSET_METADATA_TOO_LARGE",
	14:  "NETWORK_EXCEPTION",
	15:  "COORDINATOR_LOAD_IN_PROGRESS",
	16:  "COORDINATOR_NOT_AVAILABLE",
	17:  "NOT_COORDINATOR",
	18:  "INVALID_TOPIC_EXCEPTION",
	19:  "RECORD_LIST_TOO_LARGE",
	20:  "NOT_ENOUGH_REPLICAS",
	21:  "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
	22:  "INVALID_REQUIRED_ACKS",
	23:  "ILLEGAL_GENERATION",
	24:  "INCONSISTENT_GROUP_PROTOCOL",
	25:  "INVALID_GROUP_ID",
	26:  "UNKNOWN_MEMBER_ID",
	27:  "INVALID_SESSION_TIMEOUT",
	28:  "REBALANCE_IN_PROGRESS",
	29:  "INVALID_COMMIT_OFFSET_SIZE",
	30:  "TOPIC_AUTHORIZATION_FAILED",
	31:  "GROUP_AUTHORIZATION_FAILED",
	32:  "CLUSTER_AUTHORIZATION_FAILED",
	33:  "INVALID_TIMESTAMP",
	34:  "UNSUPPORTED_SASL_MECHANISM",
	35:  "ILLEGAL_SASL_STATE",
	36:  "UNSUPPORTED_VERSION",
	37:  "TOPIC_ALREADY_EXISTS",
	38:  "INVALID_PARTITIONS",
	39:  "INVALID_REPLICATION_FACTOR",
	40:  "INVALID_REPLICA_ASSIGNMENT",
	41:  "INVALID_CONFIG",
	42:  "NOT_CONTROLLER",
	43:  "INVALID_REQUEST",
	44:  "UNSUPPORTED_FOR_MESSAGE_FORMAT",
	45:  "POLICY_VIOLATION",
	46:  "OUT_OF_ORDER_SEQUENCE_NUMBER",
	47:  "DUPLICATE_SEQUENCE_NUMBER",
	48:  "INVALID_PRODUCER_EPOCH",
	49:  "INVALID_TXN_STATE",
	50:  "INVALID_PRODUCER_ID_MAPPING",
	51:  "INVALID_TRANSACTION_TIMEOUT",
	52:  "CONCURRENT_TRANSACTIONS",
	53:  "TRANSACTION_COORDINATOR_FENCED",
	54:  "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
	55:  "SECURITY_DISABLED",
	56:  "OPERATION_NOT_ATTEMPTED",
	57:  "KAFKA_STORAGE_ERROR",
	58:  "LOG_DIR_NOT_FOUND",
	59:  "SASL_AUTHENTICATION_FAILED",
	60:  "UNKNOWN_PRODUCER_ID",
	61:  "REASSIGNMENT_IN_PROGRESS",
	62:  "DELEGATION_TOKEN_AUTH_DISABLED",
	63:  "DELEGATION_TOKEN_NOT_FOUND",
	64:  "DELEGATION_TOKEN_OWNER_MISMATCH",
	65:  "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
	66:  "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
	67:  "DELEGATION_TOKEN_EXPIRED",
	68:  "INVALID_PRINCIPAL_TYPE",
	69:  "NON_EMPTY_GROUP",
	70:  "GROUP_ID_NOT_FOUND",
	71:  "FETCH_SESSION_ID_NOT_FOUND",
	72:  "INVALID_FETCH_SESSION_EPOCH",
	73:  "LISTENER_NOT_FOUND",
	74:  "TOPIC_DELETION_DISABLED",
	75:  "FENCED_LEADER_EPOCH",
	76:  "UNKNOWN_LEADER_EPOCH",
	77:  "UNSUPPORTED_COMPRESSION_TYPE",
	78:  "STALE_BROKER_EPOCH",
	79:  "OFFSET_NOT_AVAILABLE",
	80:  "MEMBER_ID_REQUIRED",
	81:  "PREFERRED_LEADER_NOT_AVAILABLE",
	82:  "GROUP_MAX_SIZE_REACHED",
	83:  "FENCED_INSTANCE_ID",
	84:  "ELIGIBLE_LEADERS_NOT_AVAILABLE",
	85:  "ELECTION_NOT_NEEDED",
	86:  "NO_REASSIGNMENT_IN_PROGRESS",
	87:  "GROUP_SUBSCRIBED_TO_TOPIC",
	88:  "INVALID_RECORD",
	89:  "UNSTABLE_OFFSET_COMMIT",
	90:  "THROTTLING_QUOTA_EXCEEDED",
	91:  "PRODUCER_FENCED",
	92:  "RESOURCE_NOT_FOUND",
	93:  "DUPLICATE_RESOURCE",
	94:  "UNACCEPTABLE_CREDENTIAL",
	95:  "INCONSISTENT_VOTER_SET",
	96:  "INVALID_UPDATE_VERSION",
	97:  "FEATURE_UPDATE_FAILED",
	98:  "PRINCIPAL_DESERIALIZATION_FAILURE",
	99:  "SNAPSHOT_NOT_FOUND",
	100: "POSITION_OUT_OF_RANGE",
	101: "UNKNOWN_TOPIC_ID",
	102: "DUPLICATE_BROKER_REGISTRATION",
	103: "BROKER_ID_NOT_REGISTERED",
	104: "INCONSISTENT_TOPIC_ID",
	105: "INCONSISTENT_CLUSTER_ID",
	106: "TRANSACTIONAL_ID_NOT_FOUND",
	107: "FETCH_SESSION_TOPIC_ID_ERROR",
	108: "INELIGIBLE_REPLICA",
	109: "NEW_LEADER_ELECTED",
	110: "OFFSET_MOVED_TO_TIERED_STORAGE",
	111: "FENCED_MEMBER_EPOCH",
	112: "UNRELEASED_INSTANCE_ID",
	113: "UNSUPPORTED_ASSIGNOR",
	114: "STALE_MEMBER_EPOCH",
	115: "MISMATCHED_ENDPOINT_TYPE",
	116: "UNSUPPORTED_ENDPOINT_TYPE",
	117: "UNKNOWN_CONTROLLER_ID",
	118: "UNKNOWN_SUBSCRIPTION_ID",
	119: "TELEMETRY_TOO_LARGE",
	120: "INVALID_REGISTRATION",
	121: "TRANSACTION_ABORTABLE",
	122: "INVALID_RECORD_STATE",
	123: "SHARE_SESSION_NOT_FOUND",
	124: "INVALID_SHARE_SESSION_EPOCH",
	125: "FENCED_STATE_EPOCH",
	126: "INVALID_VOTER_KEY",
	127: "DUPLICATE_VOTER",
	128: "VOTER_NOT_FOUND",
	129: "INVALID_REGULAR_EXPRESSION",
	130: "REBOOTSTRAP_REQUIRED",
	131: "STREAMS_INVALID_TOPOLOGY",
	132: "STREAMS_INVALID_TOPOLOGY_EPOCH",
	133: "STREAMS_TOPOLOGY_FENCED",
	134: "SHARE_SESSION_LIMIT_REACHED",
}

// CodeName returns the protocol's spelling of a code, for events and error
// texts. A code that Kafka has not given a meaning reads UNKNOWN_CODE.
func CodeName(c Code) string {
	i := int(c) + 1
	if i < 0 || i >= len(codeNames) {
		return "UNKNOWN_CODE"
	}
	return codeNames[i]
}
