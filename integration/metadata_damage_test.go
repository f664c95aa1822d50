package integration

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDamagedMetadataStarts: a killed node whose metadata log, snapshot, vote or
// meta.properties is damaged or gone starts, serves what is on its disk, and keeps
// what it could not believe.
func TestDamagedMetadataStarts(t *testing.T) {
	for name, hurt := range map[string]func(dir string) error{
		"log": func(dir string) error {
			all, _ := filepath.Glob(filepath.Join(dir, "__cluster_metadata-0", "*.log"))
			b, err := os.ReadFile(all[0])
			if err == nil {
				b[len(b)/2] ^= 1
				err = os.WriteFile(all[0], b, 0o600)
			}
			return err
		},
		"snapshot": func(dir string) error {
			all, _ := filepath.Glob(filepath.Join(dir, "__cluster_metadata-0", "*.checkpoint"))
			return os.Truncate(all[len(all)-1], 10)
		},
		"vote":            func(dir string) error { return os.Remove(filepath.Join(dir, "__cluster_metadata-0", "quorum-state")) },
		"everything":      func(dir string) error { return os.RemoveAll(filepath.Join(dir, "__cluster_metadata-0")) },
		"meta.properties": func(dir string) error { return os.Truncate(filepath.Join(dir, "meta.properties"), 7) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.start()
			n.topic("kept", 1)
			write := func(want int64) {
				t.Helper()
				cl := n.client()
				defer cl.Close()
				if base, code, err := n.produceOnce(cl, tp{"kept", 0}, batch(1, 100)); err != nil || code != 0 || base != want {
					t.Fatalf("base offset %d, code %d, %v; want %d", base, code, err, want)
				}
			}
			write(0)
			dir := filepath.Dir(n.partitionDir("kept", 0))
			n.p.Kill()
			if err := hurt(dir); err != nil {
				t.Fatal(err)
			}
			n.start()
			write(1)
			n.topic("more", 1)
			n.stop()
		})
	}
}
