package receipt

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
)

// Options say where a Store is and how much it may hold.
type Options struct {
	FS   vfs.FS
	Dir  string
	Node model.BrokerID
	// BytesMax is the most bytes that are kept; 0 keeps receipts only.
	BytesMax int64
	// RetentionMs is how long bytes are kept, -1 for ever. The journal stays.
	RetentionMs int64
}

// Subject is the replica that a receipt is of, and what is known of it.
type Subject struct {
	ID  model.TopicIDPartition
	TP  model.TopicPartition
	Dir string // the log directory
	// Cause and Detail go into the receipt.
	Cause  Cause
	Detail string
	// HighWatermark is what the replica knew last.
	HighWatermark model.Offset
}

// Store keeps receipts and bytes. Its methods may be called from any goroutine
// that may wait for the disk.
type Store struct {
	o Options

	mu     sync.Mutex
	opened bool
	// next is the id of the next receipt.
	next int64
	// journal is the file that is written, "" if a new one is to be begun.
	journal string
	// held are copies of bytes, oldest first, and bytes what they come to.
	held  []copied
	bytes int64
	// parts finds earlier receipts for the same bytes.
	parts map[partKey]partSeen
	// pending are receipts that could not be written.
	pending []Receipt
	stats   Stats
}

// copied is one kept copy.
type copied struct {
	id    int64
	at    model.Timestamp
	bytes int64
}

// partKey names a range of bytes; two removals of the same range are told apart
// by its digest.
type partKey struct {
	topicID   string
	partition int32
	file      string
	pos, size int64
}

type partSeen struct {
	id  int64
	crc string
}

// Stats counts what a Store has done since the process began, and what it holds.
type Stats struct {
	// Receipts were written; Unwritten wait for a disk that takes them, Lost were
	// given up because too many waited.
	Receipts, Unwritten, Lost int64
	// Bytes are kept in Copies; Dropped copies gave way, NotKept were never made.
	Bytes, Copies, Dropped, NotKept int64
}

const (
	// pendingMax bounds the receipts that wait for the disk.
	pendingMax = 1000
	// partsMax bounds what is remembered to find repetitions.
	partsMax = 10_000
	// journalBytesMax: a journal file that has grown beyond it is followed by a new
	// one; journalsMax is how many there are at most.
	journalBytesMax = 16 << 20
	journalsMax     = 8
)

// New returns the Store of a directory, which is not looked at before the first
// use and not made before there is something to keep.
func New(o Options) *Store { return &Store{o: o} }

// Stats reads the counters.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Bytes, st.Copies, st.Unwritten = s.bytes, int64(len(s.held)), int64(len(s.pending))
	return st
}

// Keep makes a copy and a receipt of what is about to leave a log, both durable
// when it returns, and returns the receipt. Where the disk doesn't take them it
// returns all the same, with the reason.
func (s *Store) Keep(now model.Timestamp, of Subject, m *log.Removal) (Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.draft(now, of, m)
	if err := s.open(); err != nil {
		r.NotKept = err.Error()
		s.hold(r)
		return r, err
	}
	s.expire(now)
	if err := s.flush(); err != nil {
		r.NotKept = err.Error()
		s.hold(r)
		return r, err
	}
	r.ID = s.next
	if !s.repeated(&r, m) {
		s.copy(now, &r, m)
	}
	if err := s.append(&r); err != nil {
		s.abandon(&r)
		s.hold(r)
		return r, fmt.Errorf("receipt: %w", err)
	}
	return r, nil
}

// draft is a receipt without a copy.
func (s *Store) draft(now model.Timestamp, of Subject, m *log.Removal) Receipt {
	r := Receipt{
		Time: formatTime(now), Node: int32(s.o.Node), Cause: of.Cause, Detail: of.Detail,
		Topic: of.TP.Topic, Partition: of.TP.Partition, Dir: of.Dir, HighWatermark: int64(of.HighWatermark),
		BelowHighWatermark: m.Start < min(of.HighWatermark, m.End), Parts: []Part{},
	}
	if of.ID.TopicID != model.NoTopicID {
		r.TopicID = of.ID.TopicID.String()
	}
	r.describe(m)
	for _, p := range m.Parts {
		r.Parts = append(r.Parts, Part{File: filepath.Base(p.File), Position: p.Pos, Bytes: p.Bytes})
	}
	return r
}

// open looks at what the directory holds, once. What a process that died in Keep
// has left goes: the bytes are where they were.
func (s *Store) open() error {
	if s.opened {
		return nil
	}
	names, err := s.o.FS.List(s.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	last := int64(0)
	s.parts = make(map[partKey]partSeen)
	for _, name := range slices.Backward(names) { // the newest journal that holds a receipt
		first, ok := journalName(name)
		if !ok {
			continue
		}
		last = max(last, first-1)
		list, _, err := readJournal(s.o.FS, filepath.Join(s.o.Dir, name))
		if err != nil {
			return err
		}
		if s.journal == "" {
			s.journal = name
		}
		for i := range list {
			last = max(last, list[i].ID)
			s.remember(&list[i])
		}
		if len(list) > 0 {
			break
		}
	}
	s.held, s.bytes = nil, 0
	for _, name := range names {
		id, err := strconv.ParseInt(name, 10, 64)
		if err != nil || name != copyName(id) {
			continue
		}
		dir := filepath.Join(s.o.Dir, name)
		if id > last {
			if err := s.o.FS.RemoveAll(dir); err != nil {
				return err
			}
			continue
		}
		c := copied{id: id, bytes: sizeOf(s.o.FS, dir)}
		if r, err := readReceipt(s.o.FS, filepath.Join(dir, receiptFile)); err == nil {
			c.at = r.At()
		}
		s.held, s.bytes = append(s.held, c), s.bytes+c.bytes
	}
	s.next, s.opened = last+1, true
	return nil
}

// hold keeps a receipt that can't be written in memory.
func (s *Store) hold(r Receipt) {
	if len(s.pending) == pendingMax {
		s.pending = s.pending[1:]
		s.stats.Lost++
	}
	s.pending = append(s.pending, r)
}

// flush writes what waits.
func (s *Store) flush() error {
	for len(s.pending) > 0 {
		r := s.pending[0]
		r.ID = s.next
		if err := s.append(&r); err != nil {
			return fmt.Errorf("receipt: %w", err)
		}
		s.pending = s.pending[1:]
	}
	s.pending = nil
	return nil
}

// append writes one line; on a full disk copies give way to it.
func (s *Store) append(r *Receipt) error {
	err := s.appendLine(r.ID, r.encode())
	for vfs.IsNoSpace(err) && s.dropOldest(r.ID) {
		err = s.appendLine(r.ID, r.encode())
	}
	if err != nil {
		return err
	}
	s.next++
	s.stats.Receipts++
	s.remember(r)
	return nil
}

// Retry writes receipts that wait, and drops copies that are too old; ages is
// false while the wall clock is not to be believed. It is for calling from time to
// time.
func (s *Store) Retry(now model.Timestamp, ages bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 && len(s.held) == 0 && s.opened {
		return nil
	}
	if err := s.open(); err != nil {
		return err
	}
	if ages {
		s.expire(now)
	}
	return s.flush()
}

// GiveWay drops the oldest copy, because a disk is full, and returns its size; ok
// is false if there is none. The receipts stay.
func (s *Store) GiveWay() (freed int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open() != nil || len(s.held) == 0 {
		return 0, false
	}
	freed = s.held[0].bytes
	return freed, s.dropOldest(0)
}

// remember notes a receipt's bytes.
func (s *Store) remember(r *Receipt) {
	if len(s.parts) >= partsMax {
		clear(s.parts)
	}
	for _, p := range r.Parts {
		if p.CRC32C != "" {
			s.parts[keyOf(r, &p)] = partSeen{id: r.ID, crc: p.CRC32C}
		}
	}
}

func keyOf(r *Receipt, p *Part) partKey {
	return partKey{topicID: r.TopicID, partition: r.Partition, file: p.File, pos: p.Position, size: p.Bytes}
}

// copyName is the name of the directory of a receipt's bytes.
func copyName(id int64) string { return fmt.Sprintf("%010d", id) }

const (
	journalPrefix = "receipts-"
	journalSuffix = ".jsonl"
	receiptFile   = "receipt.json"
)

// journalName reads the name of a journal file, which tells its first id.
func journalName(name string) (first int64, ok bool) {
	digits, ok := strings.CutPrefix(name, journalPrefix)
	if ok {
		digits, ok = strings.CutSuffix(digits, journalSuffix)
	}
	if !ok {
		return 0, false
	}
	first, err := strconv.ParseInt(digits, 10, 64)
	return first, err == nil && digits == copyName(first)
}
