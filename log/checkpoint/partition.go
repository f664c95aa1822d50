package checkpoint

import (
	"bytes"
	"strconv"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// PartitionMetadata is the content of a PartitionMetadataFile.
type PartitionMetadata struct {
	// TopicID is the topic's id, never NoTopicID in a file. A directory whose
	// id is not the one in the metadata belongs to an older topic of the name.
	TopicID model.TopicID
}

// ReadPartitionMetadata reads a PartitionMetadataFile; false if there is none,
// or an empty one. The error is a *FormatError, or that of the disk.
func ReadPartitionMetadata(fs vfs.FS, path string) (PartitionMetadata, bool, error) {
	text, err := load(fs, path)
	if err != nil || len(text) == 0 {
		return PartitionMetadata{}, false, err
	}
	p, err := DecodePartitionMetadata(path, text)
	return p, err == nil, err
}

// WritePartitionMetadata replaces a PartitionMetadataFile, atomically and
// durably. It has to stand before the partition's first append.
func WritePartitionMetadata(fs vfs.FS, path string, p PartitionMetadata) error {
	return vfs.WriteFileAtomic(fs, path, EncodePartitionMetadata(p))
}

// PutPartitionMetadata writes a PartitionMetadataFile in a directory that was
// just made. It is neither atomic nor durable.
func PutPartitionMetadata(fs vfs.FS, path string, p PartitionMetadata) error {
	return vfs.WriteFile(fs, path, EncodePartitionMetadata(p))
}

// DecodePartitionMetadata reads the text of a PartitionMetadataFile.
func DecodePartitionMetadata(path string, text []byte) (PartitionMetadata, error) {
	r := lineReader{rest: text}
	line, _ := r.next()
	value, ok := valueOf(line, "version")
	if v, err := strconv.ParseInt(string(value), 10, 32); !ok || err != nil || v != version {
		return PartitionMetadata{}, malformed(path, 1, "%s, want \"version: %d\"", quote(line), version)
	}
	line, _ = r.next()
	value, ok = valueOf(line, "topic_id")
	if !ok {
		return PartitionMetadata{}, malformed(path, 2, "%s, want \"topic_id: ID\"", quote(line))
	}
	id, err := model.ParseTopicID(string(value))
	if err != nil {
		return PartitionMetadata{}, malformed(path, 2, "%v", err)
	}
	if id == model.NoTopicID {
		return PartitionMetadata{}, malformed(path, 2, "topic id %s names no topic", id)
	}
	if line, more := r.next(); more {
		return PartitionMetadata{}, malformed(path, r.n, "%s after the topic id", quote(line))
	}
	return PartitionMetadata{TopicID: id}, nil
}

// EncodePartitionMetadata returns the text of a PartitionMetadataFile. It ends
// without a newline, as Kafka's does.
func EncodePartitionMetadata(p PartitionMetadata) []byte {
	b := []byte("version: ")
	b = strconv.AppendInt(b, version, 10)
	b = append(b, "\ntopic_id: "...)
	return append(b, p.TopicID.String()...)
}

// valueOf returns what stands behind "key: " in a line.
func valueOf(line []byte, key string) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(key+":"))
	if !ok {
		return nil, false
	}
	return bytes.TrimSpace(rest), true
}
