package dump_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log/dump"
)

// summed appends the CRC-32C that such files end with.
func summed(b []byte) []byte {
	return binary.BigEndian.AppendUint32(bytes.Clone(b), crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

func text(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

func TestQuorumFiles(t *testing.T) {
	identity := append([]byte{0}, bytes.Repeat([]byte{7}, 16)...)
	identity = append(text(identity, "the-cluster"), 1)
	identity = binary.BigEndian.AppendUint64(identity, 1700000000000)
	identity = summed(text(identity, "entry"))

	slot := binary.BigEndian.AppendUint64([]byte{0}, 3)
	slot = binary.BigEndian.AppendUint64(slot, 41)
	slot = text(binary.BigEndian.AppendUint32(slot, 5), "the-cluster")
	slot = summed(append(slot, make([]byte, 124-len(slot))...))

	for _, tc := range []struct {
		file    string
		content []byte
		found   bool
		says    []string
	}{
		{"quorum-identity", identity, false, []string{"the-cluster", "BwcHBwcHBwcHBwcHBwcHBw", "1700000000000"}},
		{"quorum-identity", identity[:20], true, []string{"cut short or damaged"}},
		{"quorum-identity", summed(identity[:20]), true, []string{"don't end where the file does"}},
		{"observed", append(bytes.Clone(slot), make([]byte, 128)...), false, []string{"the-cluster", "41", "5"}},
		{"observed", make([]byte, 256), true, []string{"no slot is whole"}},
	} {
		fs := memfs.New()
		if err := fs.MkdirAll("/d", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFileAtomic(fs, "/d/"+tc.file, tc.content); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		found, err := dump.Run(fs, []string{"/d/" + tc.file}, dump.Options{}, &out)
		if err != nil || found != tc.found {
			t.Errorf("%s: found %v, %v:\n%s", tc.file, found, err, out.String())
		}
		for _, s := range tc.says {
			if !strings.Contains(out.String(), s) {
				t.Errorf("%s: %q is not in\n%s", tc.file, s, out.String())
			}
		}
	}
}
