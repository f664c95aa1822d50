package broker

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// The private APIs that this package serves on controller listeners, beside those
// of the quorum. Their bytes stand in docs/formats/private.md.
const (
	keyRegister int16 = 20003 // BrokerRegistration with what Kafka's request has no room for
	keyCommand  int16 = 20004 // any other command to the active controller
	keyDamage   int16 = 20005 // which replicas of a running broker were quarantined, or don't get on
)

// privateVersion is the only version of all.
const privateVersion int16 = 0

// registrationVersion is the version of the BrokerRegistration request inside a
// keyRegister request.
const registrationVersion int16 = 4

// errPrivate says that a private request or answer can't be read.
var errPrivate = errors.New("malformed private message")

// command is a request to the controller as it travels: what is asked and how
// many milliseconds there are left for it, -1 for any number.
type command struct {
	cmd    controller.Command
	millis int32
}

// appendCommand encodes a command for keyCommand.
func appendCommand(dst []byte, c command) []byte {
	req := c.cmd.Request
	dst = binary.BigEndian.AppendUint16(dst, uint16(req.Key()))
	dst = binary.BigEndian.AppendUint16(dst, uint16(req.GetVersion()))
	dst = binary.BigEndian.AppendUint32(dst, uint32(c.millis))
	return req.AppendTo(dst)
}

// decodeCommand is the inverse of appendCommand. The result aliases no byte of b.
func decodeCommand(b []byte) (command, error) {
	if len(b) < 8 {
		return command{}, fmt.Errorf("command of %d bytes: %w", len(b), errPrivate)
	}
	h := protocol.RequestHeader{Key: int16(binary.BigEndian.Uint16(b)), Version: int16(binary.BigEndian.Uint16(b[2:]))}
	api, ok := protocol.Lookup(h.Key)
	if !ok || !api.On(protocol.OnController) {
		return command{}, fmt.Errorf("command of API %d: %w", h.Key, errPrivate)
	}
	req, err := protocol.DecodeRequest(h, b[8:])
	if err != nil {
		return command{}, fmt.Errorf("command %s version %d: %w", api.Name, h.Version, err)
	}
	return command{cmd: controller.Command{Request: req}, millis: int32(binary.BigEndian.Uint32(b[4:]))}, nil
}

// appendRegistration encodes a registration for keyRegister.
func appendRegistration(dst []byte, req *kmsg.BrokerRegistrationRequest, f *controller.RegistrationFacts) []byte {
	dst = append(dst, byte(f.Stop))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.Damaged)))
	for _, id := range f.Damaged {
		dst = appendReplica(dst, id)
	}
	if f.Ends == nil {
		dst = binary.BigEndian.AppendUint32(dst, noEnds)
	} else {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.Ends)))
	}
	for i := range f.Ends {
		dst = appendEnd(dst, &f.Ends[i])
	}
	req.Version = registrationVersion
	return req.AppendTo(dst)
}

func appendEnd(dst []byte, e *controller.ReplicaEnd) []byte {
	dst = appendReplica(dst, e.TopicIDPartition)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.End.Offset))
	return binary.BigEndian.AppendUint32(dst, uint32(e.End.Epoch))
}

// endOf reads what appendEnd wrote.
func endOf(b []byte) controller.ReplicaEnd {
	e := controller.ReplicaEnd{TopicIDPartition: replicaOf(b)}
	e.End.Offset = model.Offset(binary.BigEndian.Uint64(b[replicaBytes:]))
	e.End.Epoch = model.LeaderEpoch(binary.BigEndian.Uint32(b[replicaBytes+8:]))
	return e
}

func appendReplica(dst []byte, id model.TopicIDPartition) []byte {
	dst = append(dst, id.TopicID[:]...)
	return binary.BigEndian.AppendUint32(dst, uint32(id.Partition))
}

const (
	replicaBytes = 16 + 4               // of one replica's name
	endBytes     = replicaBytes + 8 + 4 // of one replica's end
	// noEnds in place of their number says that the broker doesn't know them.
	noEnds uint32 = 1<<32 - 1
)

// decodeRegistration is the inverse of appendRegistration.
func decodeRegistration(b []byte) (controller.Command, error) {
	if len(b) < 1 || metadata.Stop(b[0]) > metadata.StopPower {
		return controller.Command{}, fmt.Errorf("registration of %d bytes: %w", len(b), errPrivate)
	}
	f := &controller.RegistrationFacts{Stop: metadata.Stop(b[0])}
	n, b, err := countOf(b[1:], replicaBytes)
	if err != nil {
		return controller.Command{}, err
	}
	for range n {
		f.Damaged = append(f.Damaged, replicaOf(b))
		b = b[replicaBytes:]
	}
	if n, b, err = countOf(b, endBytes); err != nil {
		return controller.Command{}, err
	}
	if n >= 0 {
		f.Ends = make([]controller.ReplicaEnd, n)
	}
	for i := range f.Ends {
		f.Ends[i] = endOf(b)
		b = b[endBytes:]
	}
	req, err := protocol.DecodeRequest(protocol.RequestHeader{Key: protocol.KeyBrokerRegistration, Version: registrationVersion}, b)
	if err != nil {
		return controller.Command{}, fmt.Errorf("registration: %w", err)
	}
	return controller.Command{Request: req, Registration: f}, nil
}

// appendDamage encodes a report for keyDamage.
func appendDamage(dst []byte, r *controller.DamageReport) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Broker))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Epoch))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(r.Replicas)))
	for _, id := range r.Replicas {
		dst = appendReplica(dst, id)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(r.Stalled)))
	for _, id := range r.Stalled {
		dst = appendReplica(dst, id)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(r.Remnants)))
	for i := range r.Remnants {
		dst = appendEnd(dst, &r.Remnants[i])
	}
	return dst
}

// decodeDamage is the inverse of appendDamage.
func decodeDamage(b []byte) (controller.Command, error) {
	if len(b) < 4+8 {
		return controller.Command{}, fmt.Errorf("damage report of %d bytes: %w", len(b), errPrivate)
	}
	r := &controller.DamageReport{Broker: model.BrokerID(binary.BigEndian.Uint32(b)), Epoch: model.BrokerEpoch(binary.BigEndian.Uint64(b[4:]))}
	b = b[4+8:]
	for _, list := range []*[]model.TopicIDPartition{&r.Replicas, &r.Stalled} {
		n, rest, err := countOf(b, replicaBytes)
		if err != nil {
			return controller.Command{}, err
		}
		for b = rest; n > 0; n-- {
			*list = append(*list, replicaOf(b))
			b = b[replicaBytes:]
		}
	}
	n, b, err := countOf(b, endBytes)
	if err != nil {
		return controller.Command{}, err
	}
	for ; n > 0; n-- {
		r.Remnants = append(r.Remnants, endOf(b))
		b = b[endBytes:]
	}
	return controller.Command{Damage: r}, nil
}

// countOf reads how many things of so many bytes follow, -1 for noEnds.
func countOf(b []byte, size int) (n int, rest []byte, err error) {
	if len(b) < 4 {
		return 0, nil, fmt.Errorf("%d bytes where a number is: %w", len(b), errPrivate)
	}
	count := binary.BigEndian.Uint32(b)
	b = b[4:]
	if count == noEnds {
		return -1, b, nil
	}
	if uint64(count)*uint64(size) > uint64(len(b)) {
		return 0, nil, fmt.Errorf("%d replicas in %d bytes: %w", count, len(b), errPrivate)
	}
	return int(count), b, nil
}

func replicaOf(b []byte) model.TopicIDPartition {
	return model.TopicIDPartition{TopicID: model.TopicID(b[:16]), Partition: int32(binary.BigEndian.Uint32(b[16:]))}
}

// outcome is the answer to all: the code is that of the attempt, not of the
// command, whose response has codes of its own.
type outcome struct {
	code protocol.Code
	at   model.OffsetAndEpoch
	resp kmsg.Response // nil unless code is CodeNone, and for a damage report
}

// appendOutcome encodes an answer.
func appendOutcome(dst []byte, o outcome) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(o.code))
	dst = binary.BigEndian.AppendUint64(dst, uint64(o.at.Offset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(o.at.Epoch))
	if o.code == protocol.CodeNone && o.resp != nil {
		dst = o.resp.AppendTo(dst)
	}
	return dst
}

// decodeOutcome reads the answer to req, nil for a damage report. The response
// may alias b.
func decodeOutcome(req kmsg.Request, b []byte) (outcome, error) {
	const head = 2 + 8 + 4
	if len(b) < head {
		return outcome{}, fmt.Errorf("answer of %d bytes: %w", len(b), errPrivate)
	}
	o := outcome{code: int16(binary.BigEndian.Uint16(b))}
	o.at.Offset = model.Offset(binary.BigEndian.Uint64(b[2:]))
	o.at.Epoch = model.LeaderEpoch(binary.BigEndian.Uint32(b[10:]))
	if o.code != protocol.CodeNone || req == nil {
		return o, nil
	}
	o.resp = req.ResponseKind()
	if err := o.resp.ReadFrom(b[head:]); err != nil {
		return outcome{}, fmt.Errorf("answer to %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	return o, nil
}
