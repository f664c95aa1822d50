package broker

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol"
)

// controllerDial connects to a node's controller listener.
func (c *three) controllerDial(id int) *rawConn {
	c.t.Helper()
	nc, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.ports[2*id-1]))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
	return &rawConn{t: c.t, c: nc}
}

func TestControllerListener(t *testing.T) {
	c := newThree(t)
	active := c.active()
	idle := active%3 + 1
	versions := c.controllerDial(active).call(kmsg.NewPtrApiVersionsRequest(), 0).(*kmsg.ApiVersionsResponse)
	served := map[int16]bool{}
	for _, k := range versions.ApiKeys {
		served[k.ApiKey] = true
	}
	for key, want := range map[int16]bool{protocol.KeyProduce: false, protocol.KeyAlterPartition: true, protocol.KeyBrokerHeartbeat: true, keyCommand: false} {
		if served[key] != want {
			t.Errorf("API %d advertised to controllers and brokers: %v", key, served[key])
		}
	}
	describe := kmsg.NewPtrDescribeClusterRequest()
	describe.EndpointType = endpointControllers
	if resp := c.controllerDial(idle).call(describe, 1).(*kmsg.DescribeClusterResponse); resp.ErrorCode != 0 || resp.ControllerID != int32(active) || len(resp.Brokers) != 3 {
		t.Errorf("%+v", resp)
	}
	describe.EndpointType = endpointBrokers
	if resp := c.controllerDial(idle).call(describe, 1).(*kmsg.DescribeClusterResponse); resp.ErrorCode != protocol.CodeMismatchedEndpointType {
		t.Errorf("brokers asked of a controller: code %d", resp.ErrorCode)
	}
	beat := kmsg.NewPtrBrokerHeartbeatRequest()
	beat.BrokerID, beat.BrokerEpoch = 1, 1<<40
	if resp := c.controllerDial(active).call(beat, 1).(*kmsg.BrokerHeartbeatResponse); resp.ErrorCode != protocol.CodeStaleBrokerEpoch {
		t.Errorf("a heartbeat of another epoch: code %d", resp.ErrorCode)
	}
	if resp := c.controllerDial(idle).call(beat, 1).(*kmsg.BrokerHeartbeatResponse); resp.ErrorCode != protocol.CodeNotController {
		t.Errorf("a heartbeat to an idle controller: code %d", resp.ErrorCode)
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "direct", 1, 3
	create.Topics = append(create.Topics, rt)
	if resp := c.controllerDial(idle).call(create, 7).(*kmsg.CreateTopicsResponse); resp.Topics[0].ErrorCode != protocol.CodeNotController {
		t.Errorf("an idle controller creates a topic: code %d", resp.Topics[0].ErrorCode)
	}
	if resp := c.controllerDial(active).call(create, 7).(*kmsg.CreateTopicsResponse); resp.Topics[0].ErrorCode != 0 {
		t.Errorf("the active controller creates a topic: code %d", resp.Topics[0].ErrorCode)
	}
	// Clients find no private API on their listener, nor theirs on this one.
	conn := rawDial(t, c.nodes[active])
	frame := []byte{0, 0, 0, 12, byte(keyCommand >> 8), byte(keyCommand & 0xff), 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0}
	if _, err := conn.c.Write(frame); err != nil {
		t.Fatal(err)
	}
	conn.wantClosed()
	conn = c.controllerDial(active)
	conn.send(kmsg.NewPtrMetadataRequest(), 9)
	conn.wantClosed()
}
