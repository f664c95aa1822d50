package dump

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/tidemark/tidemark/internal/vfs"
)

// Names of the files that controller/quorum writes beside the metadata log, in
// the bytes of docs/formats/private.md.
const (
	identityFile = "quorum-identity"
	observedFile = "observed"
	observedSlot = 128
)

// summed reports whether b ends with the CRC-32C of what is before it, and
// returns that.
func summed(b []byte) (body []byte, ok bool) {
	if len(b) < 4 {
		return nil, false
	}
	body = b[:len(b)-4]
	return body, binary.BigEndian.Uint32(b[len(body):]) == crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
}

// field reads the fields of such a file; beyond the end all are zero, and short
// is set.
type field struct {
	b     []byte
	short bool
}

func (f *field) take(n int) []byte {
	if n < 0 || n > len(f.b) {
		f.short = true
		f.b = nil
		return make([]byte, min(max(n, 0), 16))
	}
	v := f.b[:n]
	f.b = f.b[n:]
	return v
}

func (f *field) int64() int64   { return int64(binary.BigEndian.Uint64(f.take(8))) }
func (f *field) int32() int32   { return int32(binary.BigEndian.Uint32(f.take(4))) }
func (f *field) bytes() []byte  { return f.take(int(f.int32())) }
func (f *field) version() int64 { return int64(f.take(1)[0]) }

// identity shows what a node has told others of itself.
func (d *dumper) identity() error {
	b, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	body, ok := summed(b)
	if !ok {
		d.out.found(-1, "cut short or damaged: the next start takes it for missing")
		d.raw(b)
		return nil
	}
	f, p := field{b: body}, &d.out
	p.begin("quorumIdentity", "")
	p.num("version", f.version())
	p.str("directoryId", base64.RawURLEncoding.EncodeToString(f.take(16)))
	p.bytes("clusterId", f.bytes())
	p.flag("configured", f.take(1)[0] != 0)
	p.num("time", f.int64())
	p.num("entryBytes", int64(len(f.bytes())))
	p.end()
	if f.short || len(f.b) > 0 {
		p.found(-1, "the fields don't end where the file does")
	}
	return nil
}

// observed shows how far the image of a node without a vote has come.
func (d *dumper) observed() error {
	b, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	p, whole := &d.out, 0
	for at := 0; at+observedSlot <= len(b) && at < 2*observedSlot; at += observedSlot {
		slot := b[at : at+observedSlot]
		body, ok := summed(slot)
		if !ok {
			continue // never written, or torn: the other one counts
		}
		whole++
		f := field{b: body}
		p.begin("observed", "")
		p.num("version", f.version())
		p.num("write", f.int64())
		p.num("offset", f.int64())
		p.num("epoch", int64(f.int32()))
		p.bytes("clusterId", f.bytes())
		p.end()
	}
	if whole == 0 {
		p.found(-1, "no slot is whole")
	}
	return nil
}
