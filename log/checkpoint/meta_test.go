package checkpoint_test

import (
	"testing"

	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log/checkpoint"
)

var dirID = checkpoint.DirectoryID{
	0xd6, 0xaa, 0x36, 0xfe, 0xda, 0x03, 0x46, 0x66, 0x8a, 0x9e, 0x0e, 0x70, 0x45, 0x69, 0xa9, 0xcd,
}

func TestMetaProperties(t *testing.T) {
	m := checkpoint.MetaProperties{ClusterID: "VGlkZW1hcmtDb21wYXRUZQ", NodeID: 1, DirectoryID: dirID}
	const text = "#\ncluster.id=VGlkZW1hcmtDb21wYXRUZQ\ndirectory.id=1qo2_toDRmaKng5wRWmpzQ\nnode.id=1\nversion=1\n"
	if got := string(checkpoint.EncodeMetaProperties(m)); got != text {
		t.Errorf("got %q", got)
	}
	fs := memfs.New()
	if err := checkpoint.WriteMetaProperties(fs, checkpoint.MetaPropertiesFile, m); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := checkpoint.ReadMetaProperties(fs, checkpoint.MetaPropertiesFile); got != m || !ok || err != nil {
		t.Errorf("%v %v %v", got, ok, err)
	}
	if _, ok, err := checkpoint.ReadMetaProperties(fs, "missing"); ok || err != nil {
		t.Errorf("missing: %v %v", ok, err)
	}
	_, ok, err := checkpoint.ReadMetaProperties(put(t, "d/f", ""), "d/f")
	wantFormat(t, err, 0, `version "", want "1"`)
	if ok {
		t.Error("an empty file is present")
	}
}

func TestMetaPropertiesForms(t *testing.T) {
	want := checkpoint.MetaProperties{ClusterID: "c", NodeID: 7, DirectoryID: dirID}
	for _, text := range []string{
		"#\n#Sun Nov 29 19:33:43 UTC 2026\nnode.id=7\ndirectory.id=1qo2_toDRmaKng5wRWmpzQ\nversion=1\ncluster.id=c\n",
		"version=1\r\nnode.id=7\r\ncluster.id=c\r\ndirectory.id=1qo2_toDRmaKng5wRWmpzQ\r\nextra=1\r\n",
		"  version : 1\n\tnode.id 7\n! comment \\\ncluster.id:c\n\n \ndirectory.id\t=  1qo2_toDRmaKng5wRWmpzQ",
		"version=1\nnode.id=8\nnode.id=7\ncluster.id=c\ndirectory.id=1qo2_\\\n   toDRmaKng5wRWmpzQ\n",
		"version=1\nnode\\u002Eid=7\n\\cluster.id=\\u0063\ndirectory.id=1qo2_toDRmaKng5wRWmpzQ\n",
	} {
		got, err := checkpoint.DecodeMetaProperties("f", []byte(text))
		if err != nil || got != want {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
}

func TestMetaPropertiesEscapes(t *testing.T) {
	for _, cluster := range []string{" a b ", "a=b:c#d!e\\f", "tab\tline\nreturn\rfeed\f", "é€𝄞", "\x01\x7f"} {
		m := checkpoint.MetaProperties{ClusterID: cluster, NodeID: 1}
		text := checkpoint.EncodeMetaProperties(m)
		got, err := checkpoint.DecodeMetaProperties("f", text)
		if err != nil || got != m {
			t.Errorf("%q: %q: %q %v", cluster, text, got.ClusterID, err)
		}
		for _, c := range text {
			if c > 0x7E || c < ' ' && c != '\n' {
				t.Errorf("%q: byte %#x in %q, which Java reads otherwise", cluster, c, text)
			}
		}
	}
}

func TestMetaPropertiesMalformed(t *testing.T) {
	for _, tc := range []struct {
		text string
		line int
		why  string
	}{
		{"broker.id=1\n", 0, `version "", want "1"`},
		{"#\nversion=0\nbroker.id=1\n", 2, `version "0", want "1"`},
		{"version=1\nnode.id=1\n", 0, "no cluster.id"},
		{"version=1\nnode.id=1\ncluster.id=\n", 3, "no cluster.id"},
		{"version=1\ncluster.id=c\n", 0, "no node.id"},
		{"version=1\ncluster.id=c\nnode.id=x\n", 3, `node.id "x" is not`},
		{"version=1\ncluster.id=c\nnode.id=-1\n", 3, `node.id "-1" is not`},
		{"version=1\ncluster.id=c\nnode.id=4294967296\n", 3, `node.id "4294967296" is not`},
		{"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=abc\n", 4, `directory.id "abc" is not`},
		{"version=1\ncluster.id=c\\u12\nnode.id=1\n", 2, `is not \uXXXX`},
	} {
		_, err := checkpoint.DecodeMetaProperties("f", []byte(tc.text))
		wantFormat(t, err, tc.line, tc.why)
	}
}
