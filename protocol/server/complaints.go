package server

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/model"
)

const (
	complainEvery = time.Minute // about one address
	complainMax   = 1024        // addresses remembered
)

// complaints remembers about whom a line was written lately, so that a peer that
// knocks in the wrong protocol a thousand times a second gets one line a minute.
type complaints struct {
	mu   sync.Mutex
	last map[string]complaint
}

type complaint struct {
	at     model.Instant // of the last line
	silent int           // how many were not written since
}

// due reports whether a line about ip is to be written now, and how many were
// left out since the last.
func (l *complaints) due(ip string, now model.Instant) (write bool, silent int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, ok := l.last[ip]
	if ok && now-old.at < model.Instant(complainEvery) {
		old.silent++
		l.last[ip] = old
		return false, 0
	}
	if l.last == nil || !ok && len(l.last) >= complainMax {
		l.last = make(map[string]complaint)
	}
	l.last[ip] = complaint{at: now}
	return true, old.silent
}

// complain counts a connection that is closed for what its peer sent, and writes
// a line about it unless one about the same address was written within a minute.
func (s *Server) complain(c *Conn, err error) {
	s.stats.bad.Add(1)
	write, silent := s.complaints.due(c.ip, s.cfg.Clock.Now().Mono)
	if !write {
		return
	}
	s.cfg.Logger.Warn("connection closed for what it sent",
		zap.String("listener", c.listener.Name), zap.String("remote", c.remote),
		zap.Int("alike", silent), zap.Error(err))
}
