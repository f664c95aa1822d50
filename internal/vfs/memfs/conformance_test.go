package memfs_test

import (
	"testing"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/internal/vfs/vfstest"
)

func TestConformance(t *testing.T) {
	vfstest.Conformance(t, func(t *testing.T) (vfs.FS, string) {
		fs := memfs.New()
		if err := fs.MkdirAll("/data", 0o755); err != nil {
			t.Fatal(err)
		}
		return fs, "/data"
	})
}

// What a power loss or a kill leaves must be a file system like any other.
func TestConformanceOfClones(t *testing.T) {
	for name, clone := range map[string]func(*memfs.FS) *memfs.FS{
		"crash": func(fs *memfs.FS) *memfs.FS { return fs.CrashClone(memfs.Crash{}) },
		"kill":  func(fs *memfs.FS) *memfs.FS { return fs.KillClone(memfs.Kill{}) },
		"fork":  (*memfs.FS).Fork,
	} {
		t.Run(name, func(t *testing.T) {
			vfstest.Conformance(t, func(t *testing.T) (vfs.FS, string) {
				fs := memfs.New()
				if err := fs.MkdirAll("/data", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := fs.SyncDir("/"); err != nil {
					t.Fatal(err)
				}
				return clone(fs), "/data"
			})
		})
	}
}
