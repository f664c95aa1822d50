package quorum

import (
	"github.com/tidemark/tidemark/log"
	"go.etcd.io/raft/v3"
	"go.uber.org/zap"
)

// raftLogger gives the library's messages to ours. What it tells at info level
// is of interest only when looking for a fault in it.
type raftLogger struct{ *zap.SugaredLogger }

var _ raft.Logger = raftLogger{}

func (l raftLogger) Info(v ...any)                    { l.Debug(v...) }
func (l raftLogger) Infof(format string, v ...any)    { l.Debugf(format, v...) }
func (l raftLogger) Warning(v ...any)                 { l.Warn(v...) }
func (l raftLogger) Warningf(format string, v ...any) { l.Warnf(format, v...) }

// removalFields are the facts of what the log cut.
func removalFields(r log.Removal) []zap.Field {
	return []zap.Field{
		zap.String("why", r.Why), zap.String("file", r.File), zap.Int64("position", r.Pos), zap.Int64("bytes", r.Bytes),
		zap.Int64("start", int64(r.Start)), zap.Int64("end", int64(r.End)), zap.Int64("batches", r.Batches),
	}
}
