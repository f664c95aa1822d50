package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
)

// InMemory returns an empty disk in memory, for Config.FS. It lives as long as
// somebody has it: a broker that is given the disk of another, stopped or killed,
// finds what that one left.
func InMemory() vfs.FS {
	disk := memfs.New()
	disk.SetClock(time.Now)
	return disk
}

// settings returns the settings that the configuration asks for.
func (c *Config) settings() (*config.Broker, error) {
	switch {
	case c.Settings != nil:
		return c.Settings, nil
	case len(c.Set) == 0:
		return config.Defaults(), nil
	}
	s, _, warnings, err := config.Load(config.Sources{Flags: c.Set})
	if err != nil {
		return nil, err
	}
	for _, k := range warnings.Unknown {
		return nil, fmt.Errorf("%s: %s", k.Key, k.Reason)
	}
	return s, nil
}

// Kill ends the broker as the death of its process does: connections break,
// nothing is flushed, handed over or marked. What was written stays on the disk.
// It is called instead of Stop.
func (b *Broker) Kill(ctx context.Context) error {
	at, cancel := context.WithCancel(ctx)
	cancel()
	b.pages.node.Stopping()
	if b.server != nil {
		b.parked.close()
		_ = b.server.Shutdown(at) // says that it didn't wait, as it should not
	}
	for i := range b.listening {
		if l := &b.listening[i]; !l.served {
			_ = l.close() // nobody was let in yet
		}
	}
	_ = b.Halt(false) // what didn't close well is as good as killed
	if b.hangUp != nil {
		b.hangUp()
	}
	if b.clock != nil {
		b.clock.Stop()
	}
	return b.closePages(ctx)
}
