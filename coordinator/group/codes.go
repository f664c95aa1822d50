package group

import (
	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/consumer"
)

// Code is an error code of the Kafka protocol.
type Code = coordinator.Code

// The codes that groups answer with.
const (
	codeNone                      Code = 0
	codeOffsetMetadataTooLarge    Code = 12
	codeCoordinatorNotAvailable   Code = coordinator.CodeCoordinatorNotAvailable
	codeIllegalGeneration         Code = 22
	codeInconsistentGroupProtocol Code = 23
	codeInvalidGroupID            Code = 24
	codeUnknownMemberID           Code = 25
	codeInvalidSessionTimeout     Code = 26
	codeRebalanceInProgress       Code = 27
	codeInvalidCommitOffsetSize   Code = 28
	codeNonEmptyGroup             Code = 68
	codeGroupIDNotFound           Code = 69
	codeMemberIDRequired          Code = 79
	codeGroupMaxSizeReached       Code = 81
	codeFencedInstanceID          Code = 82
	codeGroupSubscribedToTopic    Code = 86
	codeUnsupportedVersion        Code = 35
	codeInvalidRequest            Code = consumer.CodeInvalidRequest
	codeUnsupportedAssignor       Code = consumer.CodeUnsupportedAssignor
	codeInvalidRegularExpression  Code = consumer.CodeInvalidRegularExpression
)
