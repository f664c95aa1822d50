package dump

import (
	"encoding/binary"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/scan"
)

// verifiedFile tells when a log directory's segments were verified.
const verifiedFile = ".tidemark_scrub"

const (
	verifiedMagic = "TMV1"
	verifiedSize  = 44
)

// verified shows when which segment was verified.
func (d *dumper) verified() error {
	b, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	n := len(b) - len(verifiedMagic) - 4
	if n < 0 || n%verifiedSize != 0 || string(b[:len(verifiedMagic)]) != verifiedMagic {
		d.out.found(0, "%d bytes that are no list of verified segments, which begins with %s", len(b), verifiedMagic)
		return nil
	}
	be := binary.BigEndian
	body := b[:len(b)-4]
	for e := body[len(verifiedMagic):]; len(e) > 0; e = e[verifiedSize:] {
		d.out.begin("segment", "")
		d.out.str("topicId", model.TopicID(e[:16]).String())
		d.out.num("partition", int64(int32(be.Uint32(e[16:]))))
		d.out.num("baseOffset", int64(be.Uint64(e[20:])))
		d.out.num("size", int64(be.Uint64(e[28:])))
		d.out.num("verified", int64(be.Uint64(e[36:])))
		d.out.end()
	}
	if stored, sum := be.Uint32(b[len(body):]), scan.Digest(body); stored != sum {
		d.out.found(int64(len(body)), "crc is %d, bytes hash to %d", stored, sum)
	}
	return nil
}
