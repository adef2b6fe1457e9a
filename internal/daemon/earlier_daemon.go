package daemon

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"shuffled/memseg"
)

// earlierScanTime bounds a look at all processes of the host.
const earlierScanTime = 2 * time.Second

// earlierRounds is after how many rounds of the sweeper all processes are looked at
// again while none is known to hold anything.
const earlierRounds = 30

// An earlierDaemon knows what memory is still held of daemons that ran under this
// one's instance name before: when a daemon dies, its workers go on with what they
// share, and the kernel keeps that until they let go of it. It is found by the
// names of the objects that processes have mapped. Processes that this daemon may
// not look at, those of other users if it does not run as root, cannot be counted
// that way; if the daemon is alone in its memory cgroup, what is charged to that
// says it.
type earlierDaemon struct {
	server *Server
	rounds int    // of the sweeper, since all processes were looked at
	boot   string // of this daemon, as its objects are named
	tag    string // what the names of the instance's objects end with, before the boot

	mu      sync.Mutex
	bytes   int64
	holders []int // pids
	unseen  bool  // some processes could not be looked at
}

// shortHash makes a part of an object's name.
func shortHash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// init looks for the first time and says what there is.
func (e *earlierDaemon) init(s *Server) {
	e.server = s
	if s.config.Instance == "" {
		return
	}
	e.boot, e.tag = shortHash(s.bootID[:]), "@"+shortHash([]byte(s.config.Instance))+"."
	e.scan(nil)
	bytes, holders := e.held()
	if bytes == 0 {
		return
	}
	s.log.Warn("memory of an earlier daemon is still held; so much less is lent until it is given back",
		"bytes", bytes, "holders", holders[:min(len(holders), 16)], "processes", len(holders))
}

// objectName names a shared object so that a later daemon of this instance knows
// it.
func (s *Server) objectName(kind string) string {
	if s.earlier.tag == "" {
		return "shuffled-" + kind
	}
	return "shuffled-" + kind + s.earlier.tag + s.earlier.boot
}

// held returns how much is held, and the pids of who is known to hold it.
func (e *earlierDaemon) held() (bytes int64, holders []int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.bytes, e.holders
}

// lookAgain follows what was found as it is given back.
func (e *earlierDaemon) lookAgain() {
	bytes, holders := e.held()
	if bytes == 0 {
		return
	}
	e.rounds++
	if len(holders) > 0 {
		e.scan(holders)
	}
	if now, _ := e.held(); now == 0 || len(holders) == 0 && e.rounds >= earlierRounds {
		e.scan(nil) // their children may have it
		e.rounds = 0
	}
	if now, _ := e.held(); now == 0 {
		e.server.log.Info("the memory of the earlier daemon is given back")
	}
}

// scan counts what the processes have of it, all of them if pids is nil.
func (e *earlierDaemon) scan(pids []int) {
	ofAll := pids == nil
	deadline := time.Now().Add(earlierScanTime)
	unseen := false
	if ofAll {
		pids = allProcesses()
	}
	objects := make(map[uint64]int64)
	var holders []int
	for _, pid := range pids {
		if time.Now().After(deadline) {
			unseen = true
			break
		}
		has, err := e.objectsOf(pid, objects)
		if has {
			holders = append(holders, pid)
		}
		unseen = unseen || errors.Is(err, fs.ErrPermission)
	}
	var bytes int64
	for _, n := range objects {
		bytes += n
	}
	e.mu.Lock()
	if ofAll {
		e.unseen = unseen
	}
	if e.unseen {
		charged, ok := chargedToNobodyElse()
		if charged -= e.server.ownBytes(); ok && charged > bytes {
			bytes = charged
		}
	}
	if before := e.bytes; before > 0 {
		bytes = min(bytes, before) // what is new is this daemon's
	}
	e.bytes, e.holders = bytes, holders
	e.mu.Unlock()
	e.server.books.book(func(t *bookTotals) { t.earlier = bytes })
}

func allProcesses() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// objectsOf adds the earlier daemon's objects that a process has mapped, by their
// inodes.
func (e *earlierDaemon) objectsOf(pid int, objects map[uint64]int64) (has bool, err error) {
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		return false, err
	}
	bySmaps := false
	for line := range strings.Lines(string(maps)) {
		m, ok := parseMapping(line)
		if !ok || !e.isEarlier(m.name) {
			continue
		}
		has = true
		if _, known := objects[m.inode]; known {
			continue
		}
		info, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/map_files/" + m.span)
		if err != nil {
			bySmaps = true // only root may
			continue
		}
		objects[m.inode] = info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	if bySmaps {
		err = eachMapping(pid, func(m sharedMapping, resident int64) {
			if e.isEarlier(m.name) {
				objects[m.inode] = max(objects[m.inode], resident)
			}
		})
	}
	return has, err
}

// isEarlier reports whether an object is of this instance and not of this daemon.
func (e *earlierDaemon) isEarlier(name string) bool {
	if !strings.HasPrefix(name, "shuffled-") {
		return false
	}
	_, boot, ok := strings.Cut(name, e.tag)
	return ok && boot != e.boot
}

// ownBytes is at least what this daemon has committed.
func (s *Server) ownBytes() int64 {
	stats := s.pool.Stats()
	return s.ledger.inUse().control + int64(stats.Used)*int64(s.config.SegmentSize)
}

// chargedToNobodyElse returns how much shared memory is charged to the memory cgroup
// of this process, if it has one for itself.
func chargedToNobodyElse() (bytes int64, ok bool) {
	group := memseg.ChargedCgroup()
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/memory"} {
		dir := filepath.Join(mount, group)
		procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil || strings.TrimSpace(string(procs)) != strconv.Itoa(os.Getpid()) {
			continue
		}
		if bytes, ok := sharedBytes(filepath.Join(dir, "memory.stat")); ok {
			return bytes, true
		}
	}
	return 0, false
}

// sharedBytes reads the line shmem of a cgroup's memory.stat.
func sharedBytes(path string) (bytes int64, ok bool) {
	file, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), "shmem "); found {
			n, err := strconv.ParseInt(text, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
