package broker

import "math"

// Bits of the authorized-operations fields: bit n is the ACL operation with
// code n (KIP-430). With no authorizer everything that a resource supports is
// allowed.
const (
	opRead            = 1 << 3
	opWrite           = 1 << 4
	opCreate          = 1 << 5
	opDelete          = 1 << 6
	opAlter           = 1 << 7
	opDescribe        = 1 << 8
	opClusterAction   = 1 << 9
	opDescribeConfigs = 1 << 10
	opAlterConfigs    = 1 << 11
	opIdempotentWrite = 1 << 12

	topicOperations = opRead | opWrite | opCreate | opDelete | opAlter | opDescribe | opDescribeConfigs | opAlterConfigs

	clusterOperations = opCreate | opAlter | opDescribe | opClusterAction | opDescribeConfigs | opAlterConfigs | opIdempotentWrite

	// operationsNotAsked is what the field holds when the client did not ask.
	operationsNotAsked = math.MinInt32
)

// operations returns set if it was asked for.
func operations(asked bool, set int32) int32 {
	if asked {
		return set
	}
	return operationsNotAsked
}
