package dump

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// Names of Tidemark's own files. partition/host writes those that begin with a
// dot, in each log directory, controller/quorum the other, beside the metadata
// log. uncleanFile has the form of an offset checkpoint.
const (
	runFile       = ".tidemark_run"
	inventoryFile = ".tidemark_partitions"
	uncleanFile   = ".tidemark_unclean"
	quorumFile    = "quorum-state"
)

// runRecord is the content of a runFile. Pointers tell absent from zero.
type runRecord struct {
	Version     *int64  `json:"version"`
	BootID      *string `json:"bootId"`
	Mount       *string `json:"mount"`
	Stop        *string `json:"stop"`
	Told        *bool   `json:"told"`
	BrokerEpoch *int64  `json:"brokerEpoch"`
	Heartbeat   *int64  `json:"heartbeat"`
	Applied     *int64  `json:"applied"`
	DirectoryID *string `json:"directoryId"`
}

// note shows what was noted of a segment's damage, which is text.
func (d *dumper) note() error {
	text, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	d.out.begin("damage", "")
	d.out.bytes("found", bytes.TrimSpace(text))
	d.out.end()
	return nil
}

// run shows the record of a log directory's use.
func (d *dumper) run() error {
	text, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	line, rest, _ := bytes.Cut(text, []byte("\n"))
	var r runRecord
	if err := json.Unmarshal(line, &r); err != nil {
		d.out.found(-1, "%v", err)
		d.raw(text)
		return nil
	}
	p := &d.out
	number := func(name string, v *int64) {
		if v != nil {
			p.num(name, *v)
		}
	}
	word := func(name string, v *string) {
		if v != nil {
			p.bytes(name, []byte(*v))
		}
	}
	p.begin("run", "")
	number("version", r.Version)
	word("bootId", r.BootID)
	word("mount", r.Mount)
	word("stop", r.Stop)
	if r.Told != nil {
		p.flag("told", *r.Told)
	}
	number("brokerEpoch", r.BrokerEpoch)
	number("heartbeat", r.Heartbeat)
	number("applied", r.Applied)
	word("directoryId", r.DirectoryID)
	p.end()
	if r.Version == nil || *r.Version != 1 {
		p.found(-1, "not version 1: the next start takes the record for missing")
	}
	sum := fmt.Sprintf("%08x\n", crc32.Checksum(line, crc32.MakeTable(crc32.Castagnoli)))
	if len(rest) > 0 && string(rest) != sum {
		p.found(-1, "the second line is %s, the first hashes to %s: the next start takes the record for missing",
			strconv.Quote(string(rest)), strconv.Quote(sum))
	}
	return nil
}

// inventory shows the list of the partitions that were created in a log
// directory.
func (d *dumper) inventory() error {
	text, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" || lines[1] != strconv.Itoa(len(lines)-2) {
		d.out.found(-1, "version and count don't fit: the next start takes the list for missing")
		d.raw(text)
		return nil
	}
	for i, line := range lines[2:] {
		topic, number, _ := strings.Cut(line, " ")
		_, err := model.ParseTopicID(topic)
		partition, err2 := strconv.ParseInt(number, 10, 32)
		if err != nil || err2 != nil {
			d.out.found(-1, "line %d: %s is no topic id and partition", i+3, strconv.Quote(line))
			continue
		}
		d.out.begin("partition", "")
		d.out.str("topicId", topic)
		d.out.num("partition", partition)
		d.out.end()
	}
	return nil
}

// quorumState is the content of a quorumFile.
type quorumState struct {
	Version int    `json:"version"`
	Term    uint64 `json:"term,string"`
	Vote    uint64 `json:"vote,string"`
	Commit  uint64 `json:"commit,string"`
	CRC     uint32 `json:"crc32c"`
}

// quorum shows what a voter has promised.
func (d *dumper) quorum() error {
	text, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	var q quorumState
	if err := json.Unmarshal(text, &q); err != nil {
		d.out.found(-1, "%v", err)
		d.raw(text)
		return nil
	}
	p := &d.out
	p.begin("quorumState", "")
	p.num("version", int64(q.Version))
	p.str("term", strconv.FormatUint(q.Term, 10))
	p.str("vote", strconv.FormatUint(q.Vote, 10))
	p.str("commit", strconv.FormatUint(q.Commit, 10))
	p.num("crc32c", int64(q.CRC))
	p.end()
	sealed := fmt.Sprintf("%d %d %d %d", q.Version, q.Term, q.Vote, q.Commit)
	if got := crc32.Checksum([]byte(sealed), crc32.MakeTable(crc32.Castagnoli)); got != q.CRC {
		p.found(-1, "crc is %d, content hashes to %d", q.CRC, got)
	}
	return nil
}
