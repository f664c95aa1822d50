package log

// SnapshotProducers stores the producers' state as of the log's end, so that the
// next start replays only what comes after. Nothing is synced, and nothing is
// written while no producer is known, or what stands there is of that offset.
func (l *Log) SnapshotProducers() error {
	if err := l.usable(); err != nil {
		return err
	}
	if l.producers.Len() == 0 || l.snapshotAt == l.logEnd {
		return nil
	}
	l.blank = false
	l.strays = l.strays || !l.isBase(l.logEnd)
	return l.snapshot(l.logEnd)
}
