package dump

import (
	"encoding/binary"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol/record"
)

// offsetsDir begins the names of the directories of the topic in which groups
// keep their offsets.
const offsetsDir = "__consumer_offsets-"

// groupKinds name the records of that topic by the version of their keys. Source:
// Kafka's group-coordinator message definitions.
var groupKinds = [...]string{
	0: "OffsetCommit", 1: "OffsetCommit", 2: "GroupMetadata", 3: "ConsumerGroupMetadata", 4: "ConsumerGroupPartitionMetadata",
	5: "ConsumerGroupMemberMetadata", 6: "ConsumerGroupTargetAssignmentMetadata", 7: "ConsumerGroupTargetAssignmentMember",
	8: "ConsumerGroupCurrentMemberAssignment", 16: "ConsumerGroupRegularExpression",
}

// ofGroups reports whether the dumped segment is of that topic.
func (d *dumper) ofGroups() bool {
	return strings.HasPrefix(filepath.Base(filepath.Dir(d.path)), offsetsDir)
}

// group shows a record of that topic decoded; false for one that isn't
// understood.
func (d *dumper) group(r *record.Record) bool {
	if len(r.Key) < 2 {
		return false
	}
	kind := int(binary.BigEndian.Uint16(r.Key))
	if kind >= len(groupKinds) || groupKinds[kind] == "" {
		return false
	}
	key, value := groupMessages(kind)
	if key == nil {
		names, ok := keyStrings(r.Key[2:])
		if !ok {
			return false
		}
		d.out.str("groupRecord", groupKinds[kind])
		d.out.names("groupKey", names)
		if r.Value != nil {
			d.out.bytes("payload", r.Value)
		}
		return true
	}
	if key.ReadFrom(r.Key) != nil || r.Value != nil && value.ReadFrom(r.Value) != nil {
		return false
	}
	d.out.str("groupRecord", groupKinds[kind])
	d.message("groupKey", key)
	if r.Value != nil {
		d.message("groupValue", value)
	}
	return true
}

// message is a key or a value that kmsg knows.
type message interface{ ReadFrom(b []byte) error }

// groupMessages returns what the key and the value of a kind are read into, nil
// for those of consumer groups (KIP-848).
func groupMessages(kind int) (key, value message) {
	switch kind {
	case 0, 1:
		return new(kmsg.OffsetCommitKey), new(kmsg.OffsetCommitValue)
	case 2:
		return new(kmsg.GroupMetadataKey), new(kmsg.GroupMetadataValue)
	}
	return nil, nil
}

// message shows a decoded message as JSON.
func (d *dumper) message(name string, m message) {
	text, err := json.Marshal(m)
	if err != nil {
		return // numbers and strings can always be marshalled
	}
	d.out.raw(name, text)
}

// keyStrings reads the strings that the keys of consumer groups consist of.
func keyStrings(b []byte) (names []string, ok bool) {
	for len(b) > 0 {
		if len(b) < 2 {
			return nil, false
		}
		n := int(binary.BigEndian.Uint16(b))
		if n > len(b)-2 {
			return nil, false
		}
		names = append(names, textOf(b[2:2+n]))
		b = b[2+n:]
	}
	return names, true
}
