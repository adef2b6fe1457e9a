package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"shuffled/internal/cli"
	"shuffled/internal/daemon"
	"shuffled/shuffle"
)

// serveCommand is the command serve.
func serveCommand(p process) *cobra.Command {
	o := newServeOptions()
	list := o.settings()
	c := &cobra.Command{
		Use: "serve [flags]", Short: "Run the daemon", GroupID: daemonGroup, Args: cli.NoArguments,
		Long: `Runs the daemon that owns the shared memory of this host. Workers connect to its
socket, create result partitions and open input gates; records then go from
process to process without it.

Each setting comes from its flag, else from the environment variable in
brackets, else from the default. Unknown names are errors in both.

Users:
  What partitions do not require of --memory is shared among users: each has as much as the others, or as much as it
  can use. The last eighth of each limit, and of --memory, is kept for users that have less than a sixteenth, or whose
  partitions require less; without --allowed-uids and --allowed-gids there is only one user, who has all of --memory.
  Who keeps the daemon busy with requests has a thirty-second part of all processors for them while others are there,
  after an eighth of a second of each at once. Root and the daemon's own user are not held back by this, and get in
  for list, inspect and the like when there is no connection left.

Signals:
  SIGTERM, SIGINT   take nothing new, wait for partitions to end, stop; twice: stop at once
  SIGHUP            as the first SIGTERM, more of them change nothing; ignored under nohup.
                    No setting is read again: start another daemon for that
  SIGQUIT           write the stacks of all goroutines, end at once with exit code 2
  SIGKILL           attached workers go on; the next daemon starts cleanly on the same socket
  SIGUSR1, SIGUSR2, SIGPIPE   nothing

Exit code: 0 stopped by a signal, all partitions had ended; 1 could not start or
go on; 2 bad settings; 3 stopped by a signal with partitions that were not
consumed, the last line says how many.`,
		Example: `  shuffled serve
  shuffled serve --memory 8GiB --metrics-address 0.0.0.0:9464 --log-format json
  shuffled serve --socket /tmp/shuffled.sock --memory 256MiB --metrics-address ""
  shuffled serve --socket-group workers --allowed-gids 2000
  SHUFFLED_MEMORY=8GiB shuffled serve --print-config`,
	}
	return p.command(c, list, func([]string) error {
		if err := o.check(); err != nil {
			return err
		}
		if o.printConfig {
			return list.printConfig(p.stdout)
		}
		// Before anything else, so that no signal finds a half-started daemon that
		// leaves files behind.
		signals := make(chan os.Signal, 4)
		signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
		if !signal.Ignored(unix.SIGHUP) { // as nohup has it
			signal.Notify(signals, unix.SIGHUP)
		}
		defer signal.Stop(signals)
		// Who reads the log may end before the daemon.
		signal.Ignore(unix.SIGPIPE)
		return serve(o, signals, p.stderr)
	})
}

// A service is what serve starts and stops.
type service struct {
	options *serveOptions
	stderr  *logQueue
	log     *slog.Logger
	ready   *readiness
	socket  *socketFile
	admin   *adminServer // nil without --metrics-address
	server  *daemon.Server
}

// serve runs the daemon until a signal stops it.
func serve(o *serveOptions, signals <-chan os.Signal, stderr *logQueue) error {
	limits := o.config().Limits
	if err := o.budget.check(o.memory, limits.ControlMemory, limits.HeapMemory); err != nil {
		return err
	}
	limitGoMemory(limits.HeapMemory)
	d := &service{options: o, stderr: stderr, log: newLogger(stderr, o.logFormat, o.logLevel), ready: newReadiness()}
	err := d.start()
	if err == nil {
		err = d.run(signals)
	}
	return errors.Join(err, d.stop())
}

// start opens everything, the socket last: who can connect is served.
func (d *service) start() error {
	o := d.options
	descriptors, err := raiseDescriptorLimit()
	if err != nil {
		d.log.Warn("descriptor limit is not raised", "error", err)
	}
	if err := raiseFileSizeLimit(); err != nil {
		d.log.Warn("limit of file sizes is not raised", "error", err)
	}
	config := o.config()
	config.Logger = d.log
	var m *metrics
	config.OnAttach = func(latency time.Duration) { m.attached(latency) }
	config.Limits.Descriptors = clientDescriptors(descriptors)
	// It checks the host first. What is only less than it could be is known better
	// afterwards.
	if d.server, err = daemon.NewServer(config); err != nil {
		return err
	}
	degradations := probeDegradations(o, descriptors)
	m = newMetrics(degradations, o.budget, d.stderr.droppedLines)
	m.watch(d.server)
	m.watchReadiness(d.ready)
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
		d.admin = startAdmin(listener, m.registry, d.ready, o.pprof)
		m.watchAdmin(d.admin.connections)
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

// run serves until a signal, and drains.
func (d *service) run(signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	var running sync.WaitGroup
	serveOn := func(listener net.Listener) {
		running.Go(func() {
			if err := d.server.Serve(ctx, listener); err != nil {
				select {
				case failed <- err:
				default: // the first is enough
				}
			}
		})
	}
	serveOn(d.socket.listener)
	running.Go(func() { d.watchSocket(ctx, serveOn) })
	defer running.Wait()
	defer cancel()
	d.ready.remove(reasonStarting)
	d.log.Info("shuffled is ready")
	select {
	case err := <-failed:
		return err
	case s := <-signals:
		d.ready.add(reasonDraining)
		d.server.StartDraining()
		return d.drain(s, signals)
	}
}

// drain waits for partitions to end, for a time or until SIGTERM or SIGINT comes
// again. It returns a droppedError if some did not. A terminal that closes may send
// SIGHUP more than once, so that hurries nothing.
func (d *service) drain(first os.Signal, signals <-chan os.Signal) error {
	held := len(d.server.Snapshot().Partitions)
	d.log.Info("draining", "signal", first.String(), "partitions", held, "timeout",
		shortDuration(d.options.drainTimeout))
	ctx, cancel := context.WithTimeoutCause(context.Background(), d.options.drainTimeout,
		fmt.Errorf("--drain-timeout of %s has passed", shortDuration(d.options.drainTimeout)))
	defer cancel()
	ctx, stopNow := context.WithCancelCause(ctx)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer stopNow(nil)
	listening.Go(func() {
		for {
			select {
			case s := <-signals:
				if s == unix.SIGHUP {
					continue
				}
				stopNow(fmt.Errorf("a second signal came: %s", s))
			case <-ctx.Done():
			}
			return
		}
	})
	start := time.Now()
	if err := d.server.Drain(ctx); err != nil {
		partitions := d.server.Snapshot().Partitions
		dropped := &droppedError{partitions: notConsumed(partitions), cause: err}
		d.log.Warn("stopping with partitions", "error", err, "partitions", len(partitions), "not_consumed",
			dropped.partitions)
		if dropped.partitions == 0 {
			return nil // what is left was read, or had failed
		}
		return dropped
	}
	d.log.Info("drained", "after", shortDuration(time.Since(start).Round(time.Millisecond)))
	return nil
}

// notConsumed counts the partitions that are still produced or wait for consumers.
func notConsumed(partitions []shuffle.PartitionInfo) (n int) {
	for state := shuffle.PartitionCreated; state < shuffle.PartitionConsumed; state++ {
		for i := range partitions {
			if partitions[i].State == state.String() {
				n++
			}
		}
	}
	return n
}

// A droppedError says that the daemon stopped before its partitions had ended.
type droppedError struct {
	partitions int
	cause      error // of the end of waiting
}

func (e *droppedError) Error() string {
	return fmt.Sprintf("stopped with %d partitions that are not consumed to their end: pairs that are attached go on, nobody else can read them: %v",
		e.partitions, e.cause)
}

func (e *droppedError) Unwrap() error { return e.cause }

// stop closes what was started. The socket goes before the server, so that no
// new client meets one that is ending.
func (d *service) stop() error {
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
