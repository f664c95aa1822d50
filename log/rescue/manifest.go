package rescue

import (
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// ManifestFile, in a log directory, tells what was imported into it.
const ManifestFile = "imported.json"

// manifestVersion is written into each manifest.
const manifestVersion = 1

// Manifest is what was imported.
type Manifest struct {
	Version int `json:"version"`
	// Complete is false until all is copied: what is there then is no node's yet.
	Complete bool `json:"complete"`
	// ImportedAt is in milliseconds of Unix time.
	ImportedAt int64           `json:"importedAt"`
	Sources    []string        `json:"sources"`
	ClusterID  string          `json:"clusterId"`
	Topics     []ManifestTopic `json:"topics"`
	Left       []Left          `json:"left,omitempty"`
}

// ManifestTopic is one topic.
type ManifestTopic struct {
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	Partitions int32             `json:"partitions"`
	Configs    map[string]string `json:"configs"`
	// Told: the settings are the source's own.
	Told bool `json:"told"`
	// From names the directory of each partition that was copied.
	From map[int32]string `json:"from"`
}

// Config returns the settings that a topic was imported with, nil if it was not.
func (m *Manifest) Config(id model.TopicID) map[string]string {
	if m == nil {
		return nil
	}
	for _, t := range m.Topics {
		if t.ID == id.String() {
			return t.Configs
		}
	}
	return nil
}

// ReadManifest reads the manifest of a log directory, nil if there is none.
func ReadManifest(fs vfs.FS, logDir string) (*Manifest, error) {
	path := filepath.Join(logDir, ManifestFile)
	b, err := vfs.ReadFile(fs, path)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if m.Version != manifestVersion {
		return nil, fmt.Errorf("%s: version %d, want %d", path, m.Version, manifestVersion)
	}
	return m, nil
}
