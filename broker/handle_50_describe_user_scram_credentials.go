package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// DescribeUserScramCredentials (50), version 0.
//
// No user has SCRAM credentials here: listeners are plaintext ones. It is served
// because kafka-configs asks for them besides a user's quotas (KIP-554). Of all
// users none are listed; one that is named is RESOURCE_NOT_FOUND, or
// DUPLICATE_RESOURCE if it is named twice.
func (b *Broker) handleDescribeUserScramCredentials(r *server.Request) {
	req := r.Msg.(*kmsg.DescribeUserSCRAMCredentialsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeUserSCRAMCredentialsResponse)
	times := map[string]int{}
	for i := range req.Users {
		times[req.Users[i].Name]++
	}
	for i := range req.Users {
		name := req.Users[i].Name
		n := times[name]
		if n == 0 {
			continue // answered with the first
		}
		times[name] = 0
		u := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		why := "Attempt to describe a user credential that does not exist: " + name
		u.User, u.ErrorCode = name, protocol.CodeResourceNotFound
		if n > 1 {
			why = "Cannot describe SCRAM credentials for the same user twice in a single request: " + name
			u.ErrorCode = protocol.CodeDuplicateResource
		}
		u.ErrorMessage = &why
		resp.Results = append(resp.Results, u)
	}
	r.Reply(resp)
}
