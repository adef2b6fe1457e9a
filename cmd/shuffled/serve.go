package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"shuffled/internal/units"
	"shuffled/ipc"
)

// runServe is the command serve.
func runServe(p process) error {
	o := newServeOptions()
	list := o.settings()
	rest, err := list.load(p.args, p.environ)
	if err != nil {
		return err
	}
	if err := noArguments(rest); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if o.printConfig {
		return list.printConfig(p.stdout)
	}
	// Before anything else, so that no signal finds a half-started daemon that
	// leaves files behind.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	defer signal.Stop(signals)
	// Who reads the log may end before the daemon.
	signal.Ignore(unix.SIGPIPE)
	return serve(o, signals, p.stderr)
}

// A daemon is what serve starts and stops.
type daemon struct {
	options *serveOptions
	log     *slog.Logger
	ready   *readiness
	socket  *socketFile
	admin   *adminServer // nil without -metrics-address
	server  *ipc.Server
}

// serve runs the daemon until a signal stops it.
func serve(o *serveOptions, signals <-chan os.Signal, stderr io.Writer) error {
	if err := o.budget.check(o.memory, o.config().Limits.ControlMemory); err != nil {
		return err
	}
	d := &daemon{options: o, log: newLogger(stderr, o.logFormat, o.logLevel), ready: newReadiness()}
	err := d.start()
	if err == nil {
		err = d.run(signals)
	}
	return errors.Join(err, d.stop())
}

// start opens everything, the socket last: who can connect is served.
func (d *daemon) start() error {
	o := d.options
	descriptors, err := raiseDescriptorLimit()
	if err != nil {
		d.log.Warn("descriptor limit is not raised", "error", err)
	}
	degradations := probeDegradations(o, descriptors)
	m := newMetrics(degradations, o.budget)
	config := o.config()
	config.Logger = d.log
	config.OnAttach = m.attached
	config.Limits.Descriptors = clientDescriptors(descriptors)
	if d.server, err = ipc.NewServer(config); err != nil {
		return err
	}
	m.watch(d.server)
	gid, err := o.socketGID()
	if err != nil {
		return err
	}
	// The lock goes before the port: of two daemons with the same settings, the
	// second is told of the first and not of a port.
	if d.socket, err = listen(o.socket, gid); err != nil {
		return err
	}
	if o.metricsAddress != "" {
		listener, err := listenAdmin(o.metricsAddress)
		if err != nil {
			return err
		}
		d.admin = startAdmin(listener, m.registry, d.ready)
	}
	d.logStart(descriptors, degradations)
	return nil
}

// socketGID returns the group of the socket, or -1 for the process's own.
func (o *serveOptions) socketGID() (int, error) {
	switch {
	case o.socketGroup != "":
		return lookUpGroup(o.socketGroup)
	case len(o.allowedGIDs) > 0:
		return int(o.allowedGIDs[0]), nil
	}
	return -1, nil
}

func (d *daemon) logStart(descriptors uint64, degradations []degradation) {
	o := d.options
	attrs := []any{
		"version", programVersion(), "pid", os.Getpid(), "socket", o.socket,
		"memory", units.FormatSize(o.memory), "segment_size", units.FormatSize(o.segmentSize), "segments", o.memory / o.segmentSize,
		"max_control_memory", units.ShortSize(o.config().Limits.ControlMemory), "isolation", o.isolation, "huge_pages", o.hugePages, "descriptors", descriptors,
		"charged_cgroup", o.budget.cgroup, "cgroup_limit", d.limitText(),
		"machine_memory", units.ShortSize(o.budget.ram),
	}
	if d.admin != nil {
		attrs = append(attrs, "metrics_address", d.admin.listener.Addr().String())
	}
	d.log.Info("shuffled starts", attrs...)
	for _, g := range degradations {
		if g.active {
			d.log.Warn("degraded", "reason", g.reason, "detail", g.detail)
		}
	}
	if d.admin != nil && !isLoopback(d.admin.listener.Addr()) {
		d.log.Warn("metrics and profiles can be read from other hosts", "metrics_address", d.admin.listener.Addr().String())
	}
}

func (d *daemon) limitText() string {
	if d.options.budget.limit == 0 {
		return "none"
	}
	return units.ShortSize(d.options.budget.limit)
}

// run serves until a signal, and drains.
func (d *daemon) run(signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := d.server.Serve(ctx, net.Listener(d.socket.listener)); err != nil {
			failed <- err
		}
	}()
	defer func() { cancel(); <-done }()
	d.ready.remove(reasonStarting)
	d.log.Info("shuffled is ready")
	select {
	case err := <-failed:
		return err
	case s := <-signals:
		d.ready.add(reasonDraining)
		d.server.StartDraining()
		d.drain(s, signals)
		return nil
	}
}

// drain waits for partitions to end, for a time or until the next signal.
func (d *daemon) drain(first os.Signal, signals <-chan os.Signal) {
	held := len(d.server.Snapshot().Partitions)
	d.log.Info("draining", "signal", first.String(), "partitions", held, "timeout", shortDuration(d.options.drainTimeout))
	ctx, cancel := context.WithTimeoutCause(context.Background(), d.options.drainTimeout,
		fmt.Errorf("-drain-timeout of %s has passed", shortDuration(d.options.drainTimeout)))
	defer cancel()
	ctx, stopNow := context.WithCancelCause(ctx)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer stopNow(nil)
	listening.Go(func() {
		select {
		case s := <-signals:
			stopNow(fmt.Errorf("a second signal came: %s", s))
		case <-ctx.Done():
		}
	})
	start := time.Now()
	if err := d.server.Drain(ctx); err != nil {
		d.log.Warn("stopping with partitions", "error", err, "partitions", len(d.server.Snapshot().Partitions))
		return
	}
	d.log.Info("drained", "after", shortDuration(time.Since(start).Round(time.Millisecond)))
}

// stop closes what was started. The socket goes before the server, so that no
// new client meets one that is ending.
func (d *daemon) stop() error {
	var errs []error
	if d.socket != nil {
		errs = append(errs, d.socket.close())
	}
	if d.server != nil {
		errs = append(errs, d.server.Close())
	}
	if d.admin != nil {
		d.admin.close()
	}
	err := errors.Join(errs...)
	if d.socket != nil && err == nil {
		d.log.Info("shuffled has stopped")
	}
	return err
}
