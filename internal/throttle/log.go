// Package throttle keeps what a client can cause from filling a log.
package throttle

import (
	"log/slog"
	"sync"
	"time"
)

// A Log passes on the first few lines of each kind in an interval and counts the
// rest: the number comes with the first line of the kind in a later interval, or
// with Flush. For any number of goroutines.
type Log struct {
	log      *slog.Logger
	first    int
	interval time.Duration
	now      func() time.Time

	mu    sync.Mutex
	kinds map[string]*kind
}

type kind struct {
	started time.Time // of the interval
	lines   int       // in it
	held    int       // of those that were not passed on
}

// Lines and interval by which a daemon throttles.
const (
	firstLines = 5
	every      = 10 * time.Second
)

// New returns a Log that passes on five lines of a kind each ten seconds. now is
// the clock.
func New(log *slog.Logger, now func() time.Time) *Log {
	return &Log{log: log, first: firstLines, interval: every, now: now, kinds: make(map[string]*kind)}
}

// Warn logs a line of a kind, with that kind as its message; kinds are few. It
// takes the attributes of who is concerned from log.
func (l *Log) Warn(log *slog.Logger, msg string, args ...any) {
	held, pass := l.count(msg)
	if held > 0 {
		l.more(msg, held)
	}
	if pass {
		log.Warn(msg, args...)
	}
}

// count counts a line, and returns how many of an earlier interval were held back
// and whether to pass this one on.
func (l *Log) count(msg string) (held int, pass bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kinds[msg]
	if k == nil {
		k = &kind{started: l.now()}
		l.kinds[msg] = k
	}
	if l.now().Sub(k.started) >= l.interval {
		held, k.held, k.lines, k.started = k.held, 0, 0, l.now()
	}
	k.lines++
	if k.lines > l.first {
		k.held++
		return held, false
	}
	return held, true
}

// Flush logs how many lines were held back in intervals that are over. It is to
// be called now and then, and once at the end with all.
func (l *Log) Flush(all bool) {
	more := make(map[string]int)
	l.mu.Lock()
	for msg, k := range l.kinds {
		if !all && l.now().Sub(k.started) < l.interval {
			continue
		}
		if k.held > 0 {
			more[msg] = k.held
		}
		delete(l.kinds, msg)
	}
	l.mu.Unlock()
	for msg, held := range more {
		l.more(msg, held)
	}
}

func (l *Log) more(msg string, held int) { l.log.Warn(msg, "more_like_this", held) }
