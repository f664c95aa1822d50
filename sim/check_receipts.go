package sim

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strings"
)

// keptDir is where the simulated broker keeps what leaves its logs.
const keptDir = dataDir + "/.kept"

// fileReceipt is what the checker reads of a line of the journal. It shares no
// code with who writes it.
type fileReceipt struct {
	ID        int64  `json:"id"`
	TopicID   string `json:"topicId"`
	Partition int32  `json:"partition"`
	Start     int64  `json:"start"`
	End       int64  `json:"end"`
	Kept      string `json:"kept"`
	Parts     []struct {
		Name   string `json:"name"`
		Bytes  int    `json:"bytes"`
		CRC32C string `json:"crc32c"`
	} `json:"parts"`
}

// receipts reads the journal as the disk has it now.
func (m *machine) receipts() (list []fileReceipt) {
	names, err := m.disk.List(keptDir)
	if err != nil {
		return nil
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "receipts-") {
			continue
		}
		for line := range lines(m.disk, keptDir+"/"+name, 0) {
			var r fileReceipt
			if json.Unmarshal([]byte(line), &r) == nil {
				list = append(list, r)
			}
		}
	}
	return list
}

// receipted checks that what a replica has cut off, [to, end), is named by
// receipts that were written since it was last looked at, and that the bytes are
// where they say. What DeleteRecords took away needs none.
func (r *replica) receipted(to, end int64) {
	m, w := r.m, r.m.world
	since := func(life int) bool { return m.keptHit > 0 && m.keptHit >= life || m.fullLife > 0 && m.fullLife >= life }
	// What was kept before this cut may have given way to a full disk ever since the
	// replica was last looked at.
	excused, earlier := since(m.lives-1), since(r.receiptLife)
	r.receiptLife = m.lives
	named, mark := max(to, r.part.maxStart), r.receiptMark
	names := make(map[int64]bool)
	list := m.receipts()
	for again := true; again; {
		again = false
		for _, x := range list {
			if x.ID <= mark || x.TopicID != r.part.id.TopicID.String() || x.Partition != r.part.id.Partition {
				continue
			}
			r.receiptMark = max(r.receiptMark, x.ID)
			if x.Start <= named && x.End > named {
				named, again, names[x.ID] = x.End, true, true
			}
		}
	}
	for _, x := range list {
		if x.ID > mark && x.Kept != "" && !excused && (names[x.ID] || !earlier) {
			if err := m.holds(&x); err != nil {
				w.fail(4, "%v: receipt %d of broker %d: %v", r.tp, x.ID, m.id, err)
			}
		}
	}
	if named < end && !excused && !r.lossy && !r.hit {
		w.fail(4, "%v: broker %d has cut its log at %d, where it ended at %d; no receipt names what is above %d", r.tp, m.id, to, end, named)
	}
}

// holds checks that the bytes of a receipt are kept.
func (m *machine) holds(x *fileReceipt) error {
	for _, p := range x.Parts {
		b, err := m.disk.Content(keptDir + "/" + x.Kept + "/" + p.Name)
		if err != nil {
			return err
		}
		if sum := fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)); len(b) != p.Bytes || sum != p.CRC32C {
			return fmt.Errorf("%s is %d bytes with the digest %s, want %d and %s", p.Name, len(b), sum, p.Bytes, p.CRC32C)
		}
	}
	return nil
}
