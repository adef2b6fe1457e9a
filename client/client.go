package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"shuffled/internal/ctxerr"
	"shuffled/internal/partition"
	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// DefaultSocket is where the daemon listens if nothing else is said.
const DefaultSocket = "/run/shuffled/shuffled.sock"

// SocketVariable is the environment variable that names another socket.
const SocketVariable = "SHUFFLED_SOCKET"

// outboxLimit is how many messages may wait for a daemon that does not read.
const outboxLimit = 1 << 16

// An Option changes how a Client is made.
type Option func(*options)

type options struct {
	socket, name string
	operator     bool
	log          *slog.Logger
	tidyPause    time.Duration
	wait         bool
}

// WithSocket selects the daemon's socket, before $SHUFFLED_SOCKET and the default.
func WithSocket(path string) Option { return func(o *options) { o.socket = path } }

// WithName sets the name that operators see; by default the program's.
func WithName(name string) Option { return func(o *options) { o.name = name } }

// WithOperator says that the client sends an operator's requests only, such as
// List and Inspect. Root and the daemon's own user are then let in also when the
// daemon has no connection left; there, everything else is refused with
// shuffle.ErrQuotaExceeded.
func WithOperator() Option { return func(o *options) { o.operator = true } }

// WithWait has Dial wait until its context ends for a daemon that is not there yet. The
// logger hears once for what it waits.
func WithWait() Option { return func(o *options) { o.wait = true } }

// WithLogger sets where the client reports what nobody else is told of. By
// default it is silent.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

func newOptions(opts []Option) (options, error) {
	o := options{socket: os.Getenv(SocketVariable), name: filepath.Base(os.Args[0]), log: slog.New(slog.DiscardHandler),
		tidyPause: time.Second}
	if o.socket == "" {
		o.socket = DefaultSocket
	}
	for _, opt := range opts {
		if opt == nil {
			return o, fmt.Errorf("an option of the client is nil: %w", shuffle.ErrInvalidArgument)
		}
		opt(&o)
	}
	if o.log == nil {
		return o, fmt.Errorf("the logger of the client is nil: %w", shuffle.ErrInvalidArgument)
	}
	return o, nil
}

// A Client is a connection to the daemon.
//
// All methods may be called from any number of goroutines. They return when
// their context ends, and what they had asked for is given back then. When the
// connection ends, they return shuffle.ErrDaemonLost; partitions and gates that
// are attached go on without the daemon. After Close they return
// shuffle.ErrClosed; those of a nil or zero Client shuffle.ErrInvalidArgument.
type Client struct {
	conn    *ipc.Conn
	outbox  *ipc.Outbox
	log     *slog.Logger
	daemon  Daemon
	common  ipc.Features   // that both sides know
	tasks   sync.WaitGroup // the receiving, the dispatching and the tidying goroutine
	ended   chan struct{}  // closed when nothing is received any more
	done    chan struct{}  // closed when lost is set
	inbox   inbox
	maps    mappings
	cleanup func() error // of an embedded daemon

	mu         sync.Mutex
	nextID     uint64
	calls      map[uint64]*call
	partitions map[uint64]*remotePartition // by epoch
	gates      map[uint64]*remoteGate
	undoing    map[shuffle.PartitionID]chan struct{} // creations that were given up, until they are taken back
	refused    error                                 // what the daemon said about the connection
	lost       error                                 // why there is no connection any more
	closed     bool
}

// Daemon is what the daemon said of itself.
type Daemon struct {
	// BootID is another one after each start of the daemon.
	BootID [16]byte
	// Version is the daemon's, ProtocolVersion the one that both sides speak.
	Version         string
	ProtocolVersion uint32
	// SegmentSize is in bytes.
	SegmentSize                     int
	TotalSegments                   int64
	MaxPartitions, MaxInputsPerGate int
}

// Dial connects to the daemon of this host. Where no daemon is, the error wraps the
// system's, fs.ErrNotExist or unix.ECONNREFUSED, unless WithWait is given. It is
// shuffle.ErrVersionMismatch, ErrPermission or ErrQuotaExceeded if the daemon does not
// take the client. Without a context, or with an option that is nil, it is
// shuffle.ErrInvalidArgument.
func Dial(ctx context.Context, opts ...Option) (*Client, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	if ctx == nil || !o.wait {
		return dial(ctx, o)
	}
	const shortest, longest = time.Millisecond, 100 * time.Millisecond
	start := time.Now()
	var reason error
	for pause := shortest; ; pause = min(2*pause, longest) {
		c, err := dial(ctx, o)
		var network net.Error
		cutShort := err != nil && (ctx.Err() != nil || errors.As(err, &network) && network.Timeout())
		if err == nil || !cutShort && !mayComeLater(err) {
			return c, err
		}
		if reason == nil {
			o.log.Info("waiting for the daemon", "error", err)
		}
		if reason == nil || !cutShort { // an attempt that ctx has ended tells nothing of the daemon
			reason = err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("waited %v for the daemon: %w: %w", time.Since(start).Round(time.Millisecond),
				ctxerr.Of(ctx), reason)
		}
	}
}

func dial(ctx context.Context, o options) (*Client, error) {
	conn, err := ipc.Dial(ctx, o.socket)
	if err != nil {
		return nil, err
	}
	return newClient(ctx, conn, o, nil)
}

// mayComeLater reports whether Dial has failed for want of a daemon that takes anybody.
func mayComeLater(err error) bool {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ECONNREFUSED):
		return true
	case errors.Is(err, shuffle.ErrPermission), errors.Is(err, shuffle.ErrQuotaExceeded),
		errors.Is(err, shuffle.ErrProtocol), errors.Is(err, shuffle.ErrVersionMismatch),
		errors.Is(err, shuffle.ErrInvalidArgument), errors.Is(err, shuffle.ErrNoMemory):
		return false
	}
	return errors.Is(err, shuffle.ErrDraining) || errors.Is(err, shuffle.ErrDaemonLost) // it has ended meanwhile
}

// newClient makes a client of a connection to a daemon, which it takes over. cleanup, if
// set, is called once after it has ended.
func newClient(ctx context.Context, conn *ipc.Conn, o options, cleanup func() error) (*Client, error) {
	c := &Client{
		conn: conn, outbox: ipc.NewOutbox(conn, outboxLimit), log: o.log, cleanup: cleanup,
		calls: make(map[uint64]*call), undoing: make(map[shuffle.PartitionID]chan struct{}),
		partitions: make(map[uint64]*remotePartition), gates: make(map[uint64]*remoteGate),
		ended: make(chan struct{}), done: make(chan struct{}),
	}
	conn.KeepSpareDescriptors()
	c.inbox.init()
	c.tasks.Go(c.receive)
	c.tasks.Go(c.inbox.run)
	c.tasks.Go(func() { c.tidy(o.tidyPause) })
	if err := c.hello(ctx, o.name, o.operator); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("greet the daemon: %w", err)
	}
	return c, nil
}

func (c *Client) hello(ctx context.Context, name string, operator bool) error {
	reply, err := c.call(ctx, &controlpb.ClientMessage{Body: &controlpb.ClientMessage_Hello{Hello: &controlpb.Hello{
		MinVersion: ipc.MinProtocolVersion, MaxVersion: ipc.MaxProtocolVersion,
		Features: uint64(ipc.SupportedFeatures), ClientName: name, Operator: operator,
	}}}, nil)
	if err != nil {
		return err
	}
	defer reply.drop()
	m := reply.msg.GetHelloReply()
	if m == nil || m.GetVersion() < ipc.MinProtocolVersion || m.GetVersion() > ipc.MaxProtocolVersion {
		return fmt.Errorf("hello_reply.version: got %d, want %d to %d: %w", m.GetVersion(), ipc.MinProtocolVersion,
			ipc.MaxProtocolVersion, shuffle.ErrProtocol)
	}
	c.daemon = Daemon{
		Version: m.GetDaemonVersion(), ProtocolVersion: m.GetVersion(),
		SegmentSize:      int(m.GetLimits().GetSegmentSize()),
		TotalSegments:    int64(m.GetLimits().GetTotalSegments()),
		MaxPartitions:    int(m.GetLimits().GetMaxPartitions()),
		MaxInputsPerGate: int(m.GetLimits().GetMaxInputsPerGate()),
	}
	copy(c.daemon.BootID[:], m.GetBootId())
	c.common = ipc.CommonFeatures(ipc.Features(m.GetFeatures()), ipc.SupportedFeatures)
	return nil
}

// check refuses a client that was not made.
func (c *Client) check() error {
	if c == nil || c.conn == nil {
		return errNoClient
	}
	return nil
}

// errNoClient is about a client that is nil or zero.
var errNoClient = fmt.Errorf("the Client was not made, client.Dial returns one: %w", shuffle.ErrInvalidArgument)

// Daemon returns what the daemon said of itself when the client connected.
func (c *Client) Daemon() Daemon {
	if c == nil {
		return Daemon{}
	}
	return c.daemon
}

// Done is closed when the connection has ended: Err says why. Partitions and gates that
// are attached may go on. For any number of goroutines.
func (c *Client) Done() <-chan struct{} {
	if c.check() != nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	return c.done
}

// Err returns why the connection has ended, shuffle.ErrDaemonLost with its reason or
// after Close shuffle.ErrClosed; nil as long as there is one. For any number of goroutines.
func (c *Client) Err() error {
	if err := c.check(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// Close ends the connection. Close partitions and gates first: to the daemon,
// the end of the connection is the end of everything that is still open, and
// what is unfinished counts as lost. Gates and partitions that are open
// nevertheless return shuffle.ErrClosed from then on, also from calls that are
// under way, and must still be closed to give their memory back. Calls of the
// client return shuffle.ErrClosed, as does a second Close.
func (c *Client) Close() error {
	if err := c.check(); err != nil {
		return err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return errClientClosed
	}
	c.closed = true
	c.mu.Unlock()

	// What was posted before, such as the end of a gate, is to arrive before the
	// end of the connection.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.outbox.Shutdown(ctx)
	c.tasks.Wait()
	c.sever("its client was closed", shuffle.ErrClosed)
	if c.cleanup != nil {
		return c.cleanup()
	}
	return nil
}

// receive takes in what the daemon sends until the connection ends.
func (c *Client) receive() {
	var err error
	for {
		msg := &controlpb.ServerMessage{}
		fds, receiveErr := c.conn.Receive(msg)
		if err = receiveErr; err != nil && !errors.Is(err, ipc.ErrDescriptorsLost) {
			break
		}
		a := c.arrived(msg, fds, err)
		if msg.GetRequestId() != 0 {
			c.answer(a)
			continue
		}
		if refusal := msg.GetError(); refusal != nil {
			a.drop()
			c.mu.Lock()
			c.refused = ipc.DecodeError(refusal)
			c.mu.Unlock()
			continue
		}
		c.inbox.put(func() { c.notified(a) })
	}
	close(c.ended)
	c.disconnected(err)
	c.outbox.Close()
}

// disconnected ends the calls under way, and has partitions and gates told once
// they have heard of everything that came before.
func (c *Client) disconnected(cause error) {
	c.mu.Lock()
	switch {
	case c.closed:
		c.lost = errClientClosed
	case c.refused != nil:
		c.lost = fmt.Errorf("%w: %w", shuffle.ErrDaemonLost, c.refused)
	case errors.Is(cause, io.EOF):
		c.lost = fmt.Errorf("%w: it closed the connection", shuffle.ErrDaemonLost)
	default:
		c.lost = fmt.Errorf("%w: %w", shuffle.ErrDaemonLost, cause)
	}
	lost, calls, refused := c.lost, c.calls, c.refused != nil
	c.calls = nil
	c.mu.Unlock()
	close(c.done)
	for _, call := range calls {
		call.answer <- reply{err: lost}
		call.settled()
	}
	c.inbox.put(func() {
		if refused { // it lives, and the others go on without this client
			c.sever("the daemon has given up this client", lost)
		}
		c.daemonLost(lost)
	})
	c.inbox.close()
}

func (c *Client) daemonLost(err error) {
	partitions, gates := c.stillOpen()
	for _, p := range partitions {
		p.daemonLost(err)
	}
	for _, g := range gates {
		g.gate.SetDaemonLost(err)
	}
}

// sever ends partitions and gates that outlive the client. To the daemon they are
// gone: the others of each exchange are told so, and may use its memory anew.
func (c *Client) sever(why string, err error) {
	partitions, gates := c.stillOpen()
	for _, p := range partitions {
		p.tell(func(rp *partition.ResultPartition) {
			spec := rp.Spec()
			rp.EndedByHost(fmt.Errorf("partition %s: %s: %w", spec.Label(), why, err))
		})
	}
	for _, g := range gates {
		g.gate.Sever(fmt.Errorf("input gate: %s: %w", why, err))
	}
}

func (c *Client) stillOpen() (partitions []*remotePartition, gates []*remoteGate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.partitions)), slices.Collect(maps.Values(c.gates))
}

// post sends a message that has no answer. Without a connection it is dropped:
// the daemon has given up everything by then.
func (c *Client) post(msg *controlpb.ClientMessage) {
	if err := c.outbox.Post(msg); errors.Is(err, shuffle.ErrInvalidArgument) {
		c.log.Error("message cannot be sent", "error", err)
	}
}
