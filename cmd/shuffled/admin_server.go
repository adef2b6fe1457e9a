package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"
)

const (
	// maxScrapes is how many answers to /metrics are made at once; to more of them
	// the answer is 503. Prometheus comes in pairs.
	maxScrapes = 4
	// scrapeTimeout is how long one may take.
	scrapeTimeout = 10 * time.Second
	// answerTimeout is how long it may take to read and to answer a request, and for
	// the client to take the answer. To profiles it adds what they are asked to take.
	answerTimeout = 15 * time.Second
)

// An adminServer answers operators and their monitoring over HTTP: /metrics,
// /healthz, /readyz and, if that is wanted, /debug/pprof. Whoever can connect may
// ask, so all of it is bounded.
type adminServer struct {
	connections *adminConnections
	server      *http.Server
	done        chan struct{}
}

// listenAdmin takes the address, so that a port in use is known at start. The
// server answers from Start on.
func listenAdmin(address string) (net.Listener, error) {
	config := net.ListenConfig{KeepAlive: -1} // the server's time-outs find out who is gone
	listener, err := config.Listen(context.Background(), "tcp", address)
	if err == nil {
		return listener, nil
	}
	err = fmt.Errorf("listen on --metrics-address %s: %w", address, systemError(err))
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("%w: is another shuffled running? Choose another --metrics-address, port 0 for a free one, or \"\" for none", err)
	case errors.Is(err, unix.EACCES):
		return nil, fmt.Errorf("%w: ports below 1024 need CAP_NET_BIND_SERVICE, choose a higher one", err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%w: this host has no such address", err)
	}
	return nil, err
}

// startAdmin serves until close.
func startAdmin(listener net.Listener, metrics prometheus.Gatherer, ready *readiness, profiles bool) *adminServer {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if reasons := ready.pending(); len(reasons) > 0 {
			writeText(w, http.StatusServiceUnavailable, "not ready: "+strings.Join(reasons, ", "))
			return
		}
		writeText(w, http.StatusOK, "ok")
	})
	if profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	connections := newAdminConnections(listener)
	a := &adminServer{
		connections: connections,
		server: &http.Server{
			Handler:           mux,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       answerTimeout,
			WriteTimeout:      answerTimeout,
			IdleTimeout:       time.Minute,
			MaxHeaderBytes:    16 << 10,
			ConnState:         connections.note,
			ErrorLog:          log.New(io.Discard, "", 0), // of clients that are no such
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(a.done)
		_ = a.server.Serve(connections) // http.ErrServerClosed
	}()
	return a
}

// address is where it listens.
func (a *adminServer) address() net.Addr { return a.connections.Addr() }

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

// close lets answers that are under way finish for a moment, then ends all.
func (a *adminServer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if a.server.Shutdown(ctx) != nil {
		_ = a.server.Close()
	}
	<-a.done
}

// isLoopback reports whether only this host can reach an address.
func isLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
