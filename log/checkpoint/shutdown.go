package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// CleanShutdown is the content of a CleanShutdownFile.
type CleanShutdown struct {
	// BrokerEpoch is the registration that was in force at the stop, or
	// NoBrokerEpoch if the file doesn't say.
	BrokerEpoch model.BrokerEpoch
}

// cleanShutdownJSON is the file's form. Pointers tell absent from zero.
type cleanShutdownJSON struct {
	Version     int    `json:"version"`
	BrokerEpoch *int64 `json:"brokerEpoch"`
}

// ReadCleanShutdown looks for a CleanShutdownFile. Its presence alone says
// that the stop was orderly: content that can't be understood loses only the
// broker epoch, and is told as a *FormatError beside present = true. Any other
// error is that of the disk, with present = false.
func ReadCleanShutdown(fs vfs.FS, path string) (c CleanShutdown, present bool, err error) {
	none := CleanShutdown{BrokerEpoch: model.NoBrokerEpoch}
	if _, err := fs.Stat(path); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return none, false, nil
		}
		return none, false, fmt.Errorf("stat %s: %w", path, err)
	}
	text, err := load(fs, path)
	if err != nil {
		var format *FormatError
		return none, errors.As(err, &format), err
	}
	c, err = DecodeCleanShutdown(path, text)
	return c, true, err
}

// WriteCleanShutdown marks an orderly stop, atomically and durably. It is the
// last file to be written: after every flush and every other checkpoint.
func WriteCleanShutdown(fs vfs.FS, path string, c CleanShutdown) error {
	return vfs.WriteFileAtomic(fs, path, EncodeCleanShutdown(c))
}

// RemoveCleanShutdown removes the mark durably; a missing one is no error. It
// comes before any log of the directory is opened, so that a crash during the
// start is not taken for an orderly stop.
func RemoveCleanShutdown(fs vfs.FS, path string) error {
	if err := fs.Remove(path); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return fs.SyncDir(filepath.Dir(path))
}

// DecodeCleanShutdown reads the text of a CleanShutdownFile. With an error the
// epoch is NoBrokerEpoch.
func DecodeCleanShutdown(path string, text []byte) (CleanShutdown, error) {
	none := CleanShutdown{BrokerEpoch: model.NoBrokerEpoch}
	if len(text) == 0 {
		return none, nil // written by releases that stored no epoch
	}
	var content cleanShutdownJSON
	if err := json.Unmarshal(text, &content); err != nil {
		return none, malformed(path, 0, "%s: %v", quote(text), err)
	}
	if content.BrokerEpoch == nil {
		return none, nil
	}
	if *content.BrokerEpoch < int64(model.NoBrokerEpoch) {
		return none, malformed(path, 0, "broker epoch %d", *content.BrokerEpoch)
	}
	return CleanShutdown{BrokerEpoch: model.BrokerEpoch(*content.BrokerEpoch)}, nil
}

// EncodeCleanShutdown returns the text of a CleanShutdownFile.
func EncodeCleanShutdown(c CleanShutdown) []byte {
	return fmt.Appendf(nil, `{"version":%d,"brokerEpoch":%d}`, version, c.BrokerEpoch)
}
