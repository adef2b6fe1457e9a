package daemon

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"shuffled/internal/absent"
	"shuffled/internal/ctxerr"
	"shuffled/internal/daemon/registry"
	"shuffled/internal/throttle"
	"shuffled/ipc"
	"shuffled/memseg"
	"shuffled/pool"
	"shuffled/shuffle"
)

// A Server is the daemon: it owns the memory, knows who produces and who reads
// which partition, and speaks the control protocol with its clients, each of
// which has a session. Records never pass through it.
//
// All methods may be called from any number of goroutines. NewServer starts
// goroutines that Close ends.
type Server struct {
	config      Config
	bootID      [16]byte
	started     time.Time
	log         *slog.Logger
	partitions  *registry.ResultPartitionManager
	pool        *pool.NetworkBufferPool
	ledger      *ledger
	flights     *flights
	operators   operatorReserve
	refusals    refusals
	arrivals    chan struct{} // has an element for each accepted client that may still be refused
	sendsPutOff atomic.Uint64 // attempts that the kernel put off
	throttle    *throttle.Log
	paces       paces
	statistics  statistics
	admissions  admissions
	books       books
	earlier     earlierDaemon

	memoryCalls

	background context.CancelFunc
	stopping   <-chan struct{} // closed when background is called
	done       sync.WaitGroup  // sessions and background goroutines
	draining   atomic.Bool
	nextID     atomic.Uint64 // of sessions and gates

	mu       sync.Mutex
	closed   bool
	sessions map[*session]struct{}
	regions  map[uint64]*hostedRegion // by epoch
	gates    map[uint64]*hostedGate
	starved  []*hostedRegion // whose grants the kernel could not back

	forHugePages    []*hostedRegion // to be looked at
	noHugePages     bool            // the kernel has none
	hugePagesWanted chan struct{}   // has an element if forHugePages may have some
}

// NewServer returns a server that has no clients yet. A config outside its range
// is shuffle.ErrInvalidArgument. A host that refuses what shared memory needs is an
// error that names the system call; see CheckHost. The caller must call Close.
func NewServer(config Config) (*Server, error) {
	if err := checkHost(config); err != nil {
		return nil, err
	}
	return newServer(config, memoryCalls{(*memseg.Memfd).Commit, (*memseg.Memfd).Collapse, hugePageRate}, time.Second)
}

// memoryCalls are what a server asks of the kernel, and from how many bytes a second
// on it asks for huge pages. Tests have it refuse.
type memoryCalls struct {
	commit       func(m *memseg.Memfd, offset, length int64) error
	collapse     func(m *memseg.Memfd, offset int64) error
	hugePageRate float64
}

// newServer also takes how to get memory, and how long to wait when there was none
// and between two looks at what is held.
func newServer(config Config, calls memoryCalls, retryPause time.Duration) (*Server, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	segments, err := pool.NewNetworkBufferPool(int(config.Memory/int64(config.SegmentSize)), config.SegmentSize)
	if err != nil {
		return nil, fmt.Errorf("new server: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		config: config, started: config.Now(), log: config.Logger, pool: segments,
		ledger:  newLedger(config.Limits, config.Memory, isPrivileged),
		flights: newFlights(config.Limits), throttle: throttle.New(config.Logger, time.Now),
		memoryCalls: calls,
		background:  cancel, stopping: ctx.Done(), sessions: make(map[*session]struct{}),
		regions: make(map[uint64]*hostedRegion),
		gates:   make(map[uint64]*hostedGate), arrivals: make(chan struct{}, mostArrivals),
		hugePagesWanted: make(chan struct{}, 1),
	}
	s.partitions = registry.NewResultPartitionManager(registry.ManagerConfig{Retention: config.Retention,
		Now: config.Now, Refused: s.refused})
	s.paces = newPaces(runtime.NumCPU())
	s.admissions.changed, s.admissions.perUID = make(chan struct{}, 1), make(map[uint32]int)
	_, _ = rand.Read(s.bootID[:]) // crypto/rand.Read never fails
	if len(config.AllowedUIDs) > 0 || len(config.AllowedGIDs) > 0 {
		segments.SetKept(int(config.Memory/int64(config.SegmentSize)) / keptPart)
	}
	s.books.init(s)
	s.earlier.init(s)
	s.done.Go(func() { s.partitions.Run(ctx) })
	s.done.Go(func() { s.retryStarved(ctx, retryPause) })
	s.done.Go(func() { s.useHugePages(ctx) })
	s.done.Go(func() { s.runAdmissions(ctx) })
	s.done.Go(func() { s.sweepMemory(ctx, retryPause) })
	return s, nil
}

// check refuses a server that was not made.
func (s *Server) check() error {
	if s == nil || s.pool == nil {
		return fmt.Errorf("the Server was not made, ipc.NewServer returns one: %w", shuffle.ErrInvalidArgument)
	}
	return nil
}

// Serve accepts clients from a listener of the network "unixpacket" until ctx
// ends or the server is closed, and closes the listener. Sessions go on after
// that until Close. It returns nil, or why it cannot accept any more.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	if err := s.check(); err != nil {
		return err
	}
	if ctx == nil || absent.Is(listener) {
		return fmt.Errorf("serve without a context or a listener: %w", shuffle.ErrInvalidArgument)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = listener.Close(); close(closed) })
	defer func() {
		if stop() {
			_ = listener.Close()
		} else {
			<-closed
		}
	}()
	if !s.begin(cancel) {
		return fmt.Errorf("serve: server %w", shuffle.ErrClosed)
	}
	defer s.done.Done()
	for {
		socket, err := listener.Accept()
		switch {
		case err == nil:
			s.accept(socket)
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ECONNABORTED) ||
			errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ENOBUFS):
			s.throttle.Warn(s.log, "accept", "error", err)
			s.statistics.reject(fmt.Errorf("%w: %w", shuffle.ErrQuotaExceeded, err))
			select {
			case <-time.After(50 * time.Millisecond): // until others close some
			case <-ctx.Done():
			}
		default:
			return fmt.Errorf("serve: accept: %w", err)
		}
	}
}

func (s *Server) accept(socket net.Conn) {
	unixSocket, ok := socket.(*net.UnixConn)
	if !ok {
		s.log.Error("accept", "error", "the listener is not of a Unix socket")
		_ = socket.Close()
		return
	}
	conn, err := ipc.NewConn(unixSocket)
	if err != nil {
		s.throttle.Warn(s.log, "accept", "error", err)
		_ = socket.Close()
		return
	}
	if !s.begin(nil) {
		_ = conn.Close()
		return
	}
	// Those who are about to be refused have descriptors that nothing counts.
	select {
	case s.arrivals <- struct{}{}:
	case <-s.stopping:
	}
	go func() {
		defer s.done.Done()
		s.serveConn(conn, func() {
			select {
			case <-s.arrivals:
			case <-s.stopping:
			}
		})
	}()
}

// ServeConn serves one client until its connection ends, or until Close; it
// takes the connection over. It is for clients in this process; see Pair.
func (s *Server) ServeConn(conn *ipc.Conn) error {
	if err := errors.Join(s.check(), conn.Check()); err != nil {
		return err
	}
	if !s.begin(nil) {
		_ = conn.Close()
		return fmt.Errorf("serve connection: server %w", shuffle.ErrClosed)
	}
	defer s.done.Done()
	s.serveConn(conn, func() {})
	return nil
}

// begin counts a goroutine that Close waits for, unless the server is closed.
// Close calls stop before it waits; it may be nil.
func (s *Server) begin(stop func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.done.Add(1)
	if stop != nil {
		others := s.background
		s.background = func() { others(); stop() }
	}
	return true
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// isPrivileged reports whether a user is root or the daemon's own.
func isPrivileged(uid uint32) bool { return uid == 0 || uid == uint32(os.Geteuid()) }

// mayConnect reports whether a peer may use this daemon at all.
func (s *Server) mayConnect(who shuffle.Principal) bool {
	return isPrivileged(who.UID) ||
		slices.Contains(s.config.AllowedUIDs, who.UID) || slices.Contains(s.config.AllowedGIDs, who.GID)
}

// StartDraining refuses new partitions from now on, as Drain does, and does not
// wait.
func (s *Server) StartDraining() {
	if s.check() == nil {
		s.draining.Store(true)
	}
}

// Drain refuses new partitions from now on, and waits until the memory of all
// partitions is given back or ctx ends, whose error it returns. Gates may be
// opened: reading the partitions that are there is what ends them.
func (s *Server) Drain(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	if ctx == nil {
		return fmt.Errorf("drain without a context: %w", shuffle.ErrInvalidArgument)
	}
	s.StartDraining()
	for {
		select {
		case <-s.partitions.Empty():
			return nil
		case <-ctx.Done():
			return fmt.Errorf("drain: %w", ctxerr.Of(ctx))
		}
	}
}

func (s *Server) checkDraining() error {
	if s.draining.Load() {
		return fmt.Errorf("%w: it takes no new partitions; wait until it is back, or use another", shuffle.ErrDraining)
	}
	return nil
}

// Close ends all sessions and drops all partitions and gates. Clients see their
// connection end; what they share already stays mapped in them, and attached
// ones go on. It waits for everything that the server has started. Calls after
// the first return shuffle.ErrClosed.
func (s *Server) Close() error {
	if err := s.check(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fmt.Errorf("server: %w", shuffle.ErrClosed)
	}
	s.closed = true
	stop := s.background
	sessions := make([]*session, 0, len(s.sessions))
	for session := range s.sessions {
		sessions = append(sessions, session)
	}
	s.mu.Unlock()

	stop()
	// First of all, so that no client is told that another was lost.
	s.partitions.Close()
	for _, session := range sessions {
		_ = session.conn.Close()
	}
	s.done.Wait()
	s.books.close()
	s.throttle.Flush(true)
	s.pool.Destroy()
	return nil
}

// newEpoch returns a random number that no living partition has.
func (s *Server) newEpoch(r *hostedRegion) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var b [8]byte
		_, _ = rand.Read(b[:])
		epoch := binary.LittleEndian.Uint64(b[:])
		if epoch != 0 && s.regions[epoch] == nil {
			s.regions[epoch] = r
			return epoch
		}
	}
}

// retryStarved asks again for memory that the kernel did not have, and brings the sizes
// of all partitions up to date.
func (s *Server) retryStarved(ctx context.Context, pause time.Duration) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		s.pool.Settle()
		s.mu.Lock()
		starved := s.starved
		s.starved = nil
		s.mu.Unlock()
		s.throttle.Flush(false)
		for _, r := range starved {
			r.retry()
		}
	}
}

// sendPutOff takes note of an attempt to send that the kernel put off.
func (s *Server) sendPutOff(err error) {
	s.sendsPutOff.Add(1)
	s.throttle.Warn(s.log, "sending descriptors is put off", "error", err)
}
