package clients

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// state digests the files that decide what is installed: the pinned versions,
// and the drivers that are compiled or copied.
func state(dir, pinned string) (string, error) {
	names := []string{filepath.Join(dir, pinned)}
	for _, pattern := range []string{"*.go", "*.js", "*.json", "*.toml", "*.rs", "src/*.rs"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		names = append(names, found...)
	}
	sum := sha256.New()
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n", filepath.Base(name), len(b))
		sum.Write(b)
	}
	return fmt.Sprintf("%x\n", sum.Sum(nil)), nil
}
