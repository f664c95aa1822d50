package record

import (
	"encoding/binary"
	"fmt"
)

// ControlType is what a control record says; it stands in the record's key.
type ControlType int16

// The control types. Those from LeaderChange on stand only in metadata logs of
// Kafka. UnknownControl is read from keys of newer types.
const (
	UnknownControl ControlType = -1
	Abort          ControlType = 0
	Commit         ControlType = 1
	LeaderChange   ControlType = 2
	SnapshotHeader ControlType = 3
	SnapshotFooter ControlType = 4
	KRaftVersion   ControlType = 5
	KRaftVoters    ControlType = 6
)

// String returns the type's name.
func (t ControlType) String() string {
	switch t {
	case Abort:
		return "ABORT"
	case Commit:
		return "COMMIT"
	case LeaderChange:
		return "LEADER_CHANGE"
	case SnapshotHeader:
		return "SNAPSHOT_HEADER"
	case SnapshotFooter:
		return "SNAPSHOT_FOOTER"
	case KRaftVersion:
		return "KRAFT_VERSION"
	case KRaftVoters:
		return "KRAFT_VOTERS"
	}
	return "UNKNOWN"
}

// Sizes of a control record's key and of a marker's value, in bytes.
const (
	controlKeySize  = 4 // version, type
	markerValueSize = 6 // version, coordinator epoch
)

// DecodeControlKey reads the type from a control record's key.
func DecodeControlKey(key []byte) (ControlType, error) {
	if len(key) < controlKeySize {
		return UnknownControl, &CorruptError{Why: fmt.Sprintf("control key of %d bytes, want %d", len(key), controlKeySize)}
	}
	if v := int16(binary.BigEndian.Uint16(key)); v < 0 {
		return UnknownControl, &CorruptError{Why: fmt.Sprintf("control key version %d", v)}
	}
	t := ControlType(binary.BigEndian.Uint16(key[2:]))
	if t < Abort || t > KRaftVoters {
		return UnknownControl, nil
	}
	return t, nil
}

// AppendControlKey appends the key of a control record of type t.
func AppendControlKey(dst []byte, t ControlType) []byte {
	dst = append(dst, 0, 0)
	return binary.BigEndian.AppendUint16(dst, uint16(t))
}

// Marker ends a transaction in one partition. Source: KIP-98.
type Marker struct {
	Type             ControlType // Abort or Commit
	CoordinatorEpoch int32
}

// AppendMarkerValue appends the value of a marker.
func AppendMarkerValue(dst []byte, coordinatorEpoch int32) []byte {
	dst = append(dst, 0, 0)
	return binary.BigEndian.AppendUint32(dst, uint32(coordinatorEpoch))
}

// DecodeMarker reads a marker from a control record. ok is false, without an
// error, if the record is of another control type.
func DecodeMarker(key, value []byte) (m Marker, ok bool, err error) {
	m.Type, err = DecodeControlKey(key)
	if err != nil || m.Type != Abort && m.Type != Commit {
		return m, false, err
	}
	if len(value) < markerValueSize {
		return m, false, &CorruptError{Why: fmt.Sprintf("marker value of %d bytes, want %d", len(value), markerValueSize)}
	}
	if v := int16(binary.BigEndian.Uint16(value)); v < 0 {
		return m, false, &CorruptError{Why: fmt.Sprintf("marker value version %d", v)}
	}
	m.CoordinatorEpoch = int32(binary.BigEndian.Uint32(value[2:]))
	return m, true, nil
}

// Marker reads the marker from a control batch, which holds one. ok is false,
// without an error, if the batch is no control batch, is empty, or holds
// another control type. It allocates nothing.
func (b Batch) Marker() (m Marker, ok bool, err error) {
	if !b.IsControl() || b.Count() == 0 {
		return m, false, nil
	}
	if b.Codec() != 0 {
		// Nobody compresses markers, but a client's reader would take it.
		err = b.Each(DefaultDecompressedMax, func(r *Record) error {
			if !ok && err == nil {
				m, ok, err = DecodeMarker(r.Key, r.Value)
			}
			return err
		})
		return m, ok, err
	}
	raw := b.Records()
	var h head
	why := readHead(raw, &h)
	if why == "" && h.size > len(raw) {
		why = whyEnd
	}
	if why == "" {
		why = readTail(raw[:h.size], &h)
	}
	if why != "" {
		return m, false, &CorruptError{Why: why}
	}
	key, i := field(raw, h.body)
	value, _ := field(raw, i)
	return DecodeMarker(key, value)
}
