package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"shuffled/writer"
)

// A call is the client-streaming call that a producer makes to a consumer, typed
// as generated code types it. Its messages are protobuf's own for one field of
// bytes and for nothing.
type (
	callToConsumer   = grpc.GenericClientStream[wrapperspb.BytesValue, emptypb.Empty]
	callFromProducer = grpc.GenericServerStream[wrapperspb.BytesValue, emptypb.Empty]
)

const (
	callService = "shuffled.bench.Records"
	callMethod  = "Send"
)

// callLimit is the largest message that is accepted: a record with its field's
// tag and length.
const callLimit = MaxRecordSize + 16

// errCallLost is returned when a call ends before its records do. It is the
// consequence of what happened at the other end.
var errCallLost = errors.New("call ended by the other side")

// dialCall makes a call over a connection, which it takes over, and returns once
// the other side serves it.
func dialCall(ctx context.Context, conn net.Conn) (call *callToConsumer, hangUp func(), err error) {
	unused := make(chan net.Conn, 1) // a lost connection is not made again
	unused <- conn
	client, err := grpc.NewClient("passthrough:///consumer",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			select {
			case conn := <-unused:
				return conn, nil
			default:
				return nil, errCallLost
			}
		}))
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	stream, err := client.NewStream(ctx, &grpc.StreamDesc{StreamName: callMethod, ClientStreams: true},
		"/"+callService+"/"+callMethod)
	if err != nil {
		_ = client.Close()
		return nil, nil, fmt.Errorf("call consumer: %w: %w", err, errCallLost)
	}
	return &callToConsumer{ClientStream: stream}, func() { _ = client.Close() }, nil
}

// produceIntoCalls sends the records of a source, each in a message of its own.
// The only call gets all of them, several get those that the selector chooses.
func produceIntoCalls(calls []*callToConsumer, selector writer.ChannelSelector[[]byte], source *recordSource) error {
	if err := selector.Setup(len(calls)); err != nil {
		return err
	}
	out := calls[0]
	for source.more() {
		for i := range source.count {
			record := source.record(i)
			if len(calls) > 1 {
				out = calls[selector.Select(record)]
			}
			if err := out.Send(&wrapperspb.BytesValue{Value: record}); err != nil {
				return fmt.Errorf("send record: %w: %w", err, errCallLost)
			}
		}
	}
	for _, out := range calls {
		if _, err := out.CloseAndRecv(); err != nil {
			return fmt.Errorf("end call: %w: %w", err, errCallLost)
		}
	}
	return nil
}

// call sends through gRPC.
func (p *recordProducer) call(ctx context.Context, source *recordSource, begin func() error) error {
	conns, err := openConns(p.Exchange.Consumers)
	if err != nil {
		return err
	}
	var calls []*callToConsumer
	for _, conn := range conns {
		call, hangUp, err := dialCall(ctx, conn)
		if err != nil {
			return err
		}
		defer hangUp()
		calls = append(calls, call)
	}
	if err := begin(); err != nil {
		return err
	}
	return produceIntoCalls(calls, p.Distribution.selector(), source)
}

// openConns returns the streams that a worker was started with as connections.
func openConns(n int) (conns []net.Conn, err error) {
	files, err := openStreams(n)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		conn, err := connOf(file)
		if err != nil {
			return nil, err
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

// connOf returns a stream as a connection, which replaces the file.
func connOf(file *os.File) (net.Conn, error) {
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", file.Name(), err)
	}
	return conn, nil
}

// A callServer answers one call on each of its connections, and checks what
// comes.
type callServer struct {
	server   *grpc.Server
	checkers []*recordChecker
	timer    *spanTimer
	answered atomic.Int64 // calls that have a checker
	ended    chan error   // an element for each call
	serving  sync.WaitGroup
}

// serveCalls serves one call for each checker on the connections, which it takes
// over.
func serveCalls(conns []net.Conn, checkers []*recordChecker, timer *spanTimer) *callServer {
	s := &callServer{
		server:   grpc.NewServer(grpc.MaxRecvMsgSize(callLimit), grpc.WaitForHandlers(true)),
		checkers: checkers, timer: timer, ended: make(chan error, len(checkers)),
	}
	s.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: callService, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: callMethod, ClientStreams: true, Handler: s.handle}},
	}, s)
	listener := newConnListener(conns)
	s.serving.Go(func() { _ = s.server.Serve(listener) }) // calls that do not come are noticed
	return s
}

func (s *callServer) handle(_ any, stream grpc.ServerStream) error {
	i := int(s.answered.Add(1)) - 1
	if i >= len(s.checkers) {
		return errors.New("more calls than producers")
	}
	err := consumeFromCall(&callFromProducer{ServerStream: stream}, s.checkers[i], s.timer)
	s.ended <- err
	return err
}

func consumeFromCall(call *callFromProducer, checker *recordChecker, timer *spanTimer) error {
	first := true
	for {
		message, err := call.Recv()
		if errors.Is(err, io.EOF) {
			return call.SendAndClose(&emptypb.Empty{})
		}
		if err != nil {
			return fmt.Errorf("receive record: %w: %w", err, errCallLost)
		}
		if first {
			first = false
			timer.begin()
		}
		if err := checker.check(message.GetValue()); err != nil {
			return err
		}
	}
}

// wait returns when all calls have ended, or one has failed.
func (s *callServer) wait() error {
	for range s.checkers {
		if err := <-s.ended; err != nil {
			return err
		}
	}
	return nil
}

// close ends the calls that are left, once those that have ended are answered.
func (s *callServer) close(failed bool) {
	if failed {
		s.server.Stop()
	} else {
		s.server.GracefulStop()
	}
	s.serving.Wait()
}

// serve receives through gRPC.
func (p *recordConsumer) serve(w *workerContext) (res result, err error) {
	checkers, err := p.checkers()
	if err != nil {
		return res, err
	}
	conns, err := openConns(p.Exchange.Producers)
	if err != nil {
		return res, err
	}
	var timer spanTimer
	server := serveCalls(conns, checkers, &timer)
	defer func() { server.close(err != nil) }()
	if err := w.begin(); err != nil {
		return res, err
	}
	p.maybeDie()
	if err := server.wait(); err != nil {
		return res, err
	}
	return consumed(timer.end(), checkers...), nil
}

// A connListener hands out connections that exist already.
type connListener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newConnListener(conns []net.Conn) *connListener {
	l := &connListener{conns: make(chan net.Conn, len(conns)), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	for _, conn := range conns {
		l.conns <- conn
	}
	return l
}

// Accept returns the next connection. After the last it waits for Close.
func (l *connListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (l *connListener) Close() error {
	l.close()
	return nil
}

// Addr is for messages.
func (l *connListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }
