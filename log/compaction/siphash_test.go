package compaction

import (
	"encoding/binary"
	"testing"
)

// The first sums of the authors' own vectors: key 00 01 … 0f, input of n bytes
// 00 01 ….
func TestSipHash(t *testing.T) {
	var key, in [16]byte
	for i := range key {
		key[i], in[i] = byte(i), byte(i)
	}
	k := Secret{binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])}
	for n, want := range []string{
		"\xa3\x81\x7f\x04\xba\x25\xa8\xe6\x6d\xf6\x72\x14\xc7\x55\x02\x93",
		"\xda\x87\xc1\xd8\x6b\x99\xaf\x44\x34\x76\x59\x11\x9b\x22\xfc\x45",
		"\x81\x77\x22\x8d\xa4\xa4\x5d\xc7\xfc\xa3\x8b\xde\xf6\x0a\xff\xe4",
	} {
		var got [16]byte
		h1, h2 := k.sum(in[:n])
		binary.LittleEndian.PutUint64(got[:], h1)
		binary.LittleEndian.PutUint64(got[8:], h2)
		if string(got[:]) != want {
			t.Errorf("%d bytes: %x, want %x", n, got, want)
		}
	}
	other := Secret{1, 2}
	if a, _ := other.sum(in[:5]); a == 0 {
		t.Error("another secret gives 0")
	}
}
