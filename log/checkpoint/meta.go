package checkpoint

import (
	"encoding/base64"
	"strconv"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// metaVersion is the version of meta.properties in KRaft clusters. Version 0
// is that of ZooKeeper's brokers, whose directories are not opened.
const metaVersion = 1

// Keys of meta.properties.
const (
	keyVersion     = "version"
	keyClusterID   = "cluster.id"
	keyNodeID      = "node.id"
	keyDirectoryID = "directory.id"
)

// DirectoryID is the id of a log directory, chosen when it is first used and
// never changed. All zeros means that the file names none. Source: KIP-858.
type DirectoryID [16]byte

// String returns the URL-safe base64 form that the file holds.
func (d DirectoryID) String() string { return base64.RawURLEncoding.EncodeToString(d[:]) }

// MetaProperties is the content of a MetaPropertiesFile: whose log directory
// this is. A process that is not this node of this cluster must not touch it.
type MetaProperties struct {
	ClusterID   string
	NodeID      model.BrokerID
	DirectoryID DirectoryID
}

// ReadMetaProperties reads a MetaPropertiesFile; false if there is none. An
// empty file is malformed here: it exists, and says nothing about whose the
// directory is. The error is a *FormatError, or that of the disk.
func ReadMetaProperties(fs vfs.FS, path string) (MetaProperties, bool, error) {
	text, err := load(fs, path)
	if err != nil || text == nil {
		return MetaProperties{}, false, err
	}
	m, err := DecodeMetaProperties(path, text)
	return m, err == nil, err
}

// WriteMetaProperties replaces a MetaPropertiesFile, atomically and durably.
func WriteMetaProperties(fs vfs.FS, path string, m MetaProperties) error {
	return vfs.WriteFileAtomic(fs, path, EncodeMetaProperties(m))
}

// DecodeMetaProperties reads the text of a MetaPropertiesFile. Keys it doesn't
// know are passed over, as Kafka does.
func DecodeMetaProperties(path string, text []byte) (MetaProperties, error) {
	var m MetaProperties
	props, err := parseProperties(path, text)
	if err != nil {
		return m, err
	}
	// Kafka takes a file without a version for version 0.
	if v, ok := props[keyVersion]; !ok || v.text != strconv.Itoa(metaVersion) {
		return m, malformed(path, v.line, "version %q, want \"%d\"", v.text, metaVersion)
	}
	cluster, ok := props[keyClusterID]
	if !ok || cluster.text == "" {
		return m, malformed(path, cluster.line, "no %s", keyClusterID)
	}
	node, ok := props[keyNodeID]
	if !ok {
		return m, malformed(path, 0, "no %s", keyNodeID)
	}
	id, err := strconv.ParseInt(node.text, 10, 32)
	if err != nil || id < 0 {
		return m, malformed(path, node.line, "%s %q is not a node's number", keyNodeID, node.text)
	}
	if dir, ok := props[keyDirectoryID]; ok {
		b, err := base64.RawURLEncoding.Strict().DecodeString(dir.text)
		if err != nil || len(b) != len(m.DirectoryID) {
			return m, malformed(path, dir.line, "%s %q is not a base64 UUID", keyDirectoryID, dir.text)
		}
		copy(m.DirectoryID[:], b)
	}
	m.ClusterID = cluster.text
	m.NodeID = model.BrokerID(id)
	return m, nil
}

// EncodeMetaProperties returns the text of a MetaPropertiesFile, keys in a
// fixed order. Kafka's own begins with a comment that holds the date; this one
// has none, so that equal content is equal bytes.
func EncodeMetaProperties(m MetaProperties) []byte {
	b := []byte("#\n")
	b = appendProperty(b, keyClusterID, m.ClusterID)
	if m.DirectoryID != (DirectoryID{}) {
		b = appendProperty(b, keyDirectoryID, m.DirectoryID.String())
	}
	b = appendProperty(b, keyNodeID, strconv.Itoa(int(m.NodeID)))
	return appendProperty(b, keyVersion, strconv.Itoa(metaVersion))
}
