package consumer

import (
	"encoding/binary"
	"errors"

	"github.com/tidemark/tidemark/coordinator/group/assign"
	"github.com/tidemark/tidemark/internal/model"
)

// errShort says that a record ends before its fields do, or has a length that it
// can't hold.
var errShort = errors.New("record is cut short")

// reader reads the fields of a record. After the first error all it reads is
// zero. Values of version 0 are flexible: lengths are varints plus one, tagged
// fields follow. Keys are not. Source: KIP-482.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() {
	r.b, r.err = nil, errShort
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail()
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// uvarint reads a length or a tag; one that can't be meant is an error.
func (r *reader) uvarint() int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > 1<<31 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

// keyString reads a string as keys have it.
func (r *reader) keyString() string { return string(r.take(int(r.int16()))) }

// nullable reads a compact string that may be null.
func (r *reader) nullable() *string {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	s := string(r.take(n - 1))
	return &s
}

func (r *reader) string() string {
	s := r.nullable()
	if s == nil {
		r.fail()
		return ""
	}
	return *s
}

// count reads the length of a compact array whose elements take at least size
// bytes each.
func (r *reader) count(size int) int {
	n := r.uvarint() - 1
	if n < 0 || n > len(r.b)/size {
		r.fail()
		return 0
	}
	return n
}

func (r *reader) strings() []string {
	var out []string
	for range r.count(1) {
		out = append(out, r.string())
	}
	return out
}

// tags calls fn with every tagged field.
func (r *reader) tags(fn func(tag int, value *reader)) {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		tag, size := r.uvarint(), r.uvarint()
		fn(tag, &reader{b: r.take(size)})
	}
}

// skipTags passes over tagged fields.
func (r *reader) skipTags() { r.tags(func(int, *reader) {}) }

// set reads partitions grouped by topic.
func (r *reader) set() assign.Set {
	var ps []assign.Partition
	for range r.count(18) {
		var id model.TopicID
		copy(id[:], r.take(16))
		for range r.count(4) {
			ps = append(ps, assign.Partition{Topic: id, Number: r.int32()})
		}
		r.skipTags()
	}
	return assign.SetOf(ps)
}

// classic reads what is kept of a classic member; it is null if a byte below 0
// stands before it.
func (r *reader) classic() *Classic {
	if r.int8() < 0 {
		return nil
	}
	c := &Classic{SessionTimeoutMs: r.int32()}
	for range r.count(3) {
		p := Protocol{Name: r.string()}
		p.Metadata = append([]byte{}, r.take(r.uvarint()-1)...)
		r.skipTags()
		c.Protocols = append(c.Protocols, p)
	}
	r.skipTags()
	return c
}

// appendClassic writes the tagged fields of a member: what is kept of one that
// speaks the classic protocol is number 0.
func appendClassic(b []byte, c *Classic) []byte {
	if c == nil {
		return append(b, 0)
	}
	v := binary.BigEndian.AppendUint32([]byte{1}, uint32(c.SessionTimeoutMs)) // 1: it is there
	v = binary.AppendUvarint(v, uint64(len(c.Protocols))+1)
	for _, p := range c.Protocols {
		v = appendString(v, p.Name)
		v = append(binary.AppendUvarint(v, uint64(len(p.Metadata))+1), p.Metadata...)
		v = append(v, 0)
	}
	v = append(v, 0)
	b = binary.AppendUvarint(append(b, 1, 0), uint64(len(v)))
	return append(b, v...)
}

func appendKeyString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))+1), s...)
}

func appendNullable(b []byte, s *string) []byte {
	if s == nil {
		return append(b, 0)
	}
	return appendString(b, *s)
}

func appendStrings(b []byte, ss []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(ss))+1)
	for _, s := range ss {
		b = appendString(b, s)
	}
	return b
}

// appendSet writes partitions grouped by topic.
func appendSet(b []byte, s assign.Set) []byte {
	topics := 0
	for i := range s {
		if i == 0 || s[i].Topic != s[i-1].Topic {
			topics++
		}
	}
	b = binary.AppendUvarint(b, uint64(topics)+1)
	for len(s) > 0 {
		n := 1
		for n < len(s) && s[n].Topic == s[0].Topic {
			n++
		}
		b = append(b, s[0].Topic[:]...)
		b = binary.AppendUvarint(b, uint64(n)+1)
		for _, p := range s[:n] {
			b = binary.BigEndian.AppendUint32(b, uint32(p.Number))
		}
		b = append(b, 0)
		s = s[n:]
	}
	return b
}
