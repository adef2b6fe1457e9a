package daemon

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"shuffled/internal/daemon/registry"
	"shuffled/internal/foreigntext"
	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// producerMapped seals the region, if that is wanted, and opens it for consumers.
func (r *hostedRegion) producerMapped() error {
	if r.server.config.Isolation == StrictIsolation {
		err := r.memory.memfd.SealFutureWrite()
		if err == nil {
			err = r.memory.memfd.SealSeals()
		}
		if err != nil && !errors.Is(err, memseg.ErrClosed) {
			_ = r.hosted.Failed("its region cannot be sealed: " + err.Error())
			return fmt.Errorf("partition %s: %w: %w", r.spec.ID, err, shuffle.ErrProtocol)
		}
	}
	r.mappedAt.CompareAndSwap(0, r.server.config.Now().UnixNano())
	return r.hosted.Mapped()
}

// producerClosed forgets the producer.
func (r *hostedRegion) producerClosed(reason string) {
	r.mu.Lock()
	r.readStats() // a wait that it died in counts until now
	r.mu.Unlock()
	r.session.Store(nil)
	r.hosted.ProducerClosed(reason)
	r.endGrant(shuffle.ErrProducerLost)
	r.server.books.lookSoon(r)
}

// stop notes that the producer has said that it writes no more.
func (r *hostedRegion) stop() {
	r.stopped.Store(true)
	r.server.books.lookSoon(r)
}

// Attach implements shuffle.PartitionHost.
func (r *hostedRegion) Attach(request *registry.SubpartitionRequest) {
	channel := request.Consumer().(*hostedChannel)
	if err := channel.prepare(r.layout.FirstOrdinal); err != nil {
		if !errors.Is(err, memseg.ErrClosed) { // a closed gate is leaving already
			request.Abort(err)
		}
		return
	}
	attachment := &attachment{server: r.server, since: max(channel.asked, r.mappedAt.Load())}
	producer := r.session.Load()
	attachment.untold.Store(1)
	if producer != nil {
		attachment.untold.Store(2)
	}
	channel.gate.session.notifyFunc(attachment.telling(func() (*controlpb.ServerMessage, ipc.FDs, error) {
		return r.inputReady(channel, request)
	}))
	if producer != nil {
		producer.notifyFunc(attachment.telling(func() (*controlpb.ServerMessage, ipc.FDs, error) {
			return r.consumerAttached(channel, request)
		}))
	}
}

// An attachment is a producer and a consumer that are being told of each other.
type attachment struct {
	server *Server
	since  int64        // when both were there
	untold atomic.Int32 // how many of them were not told yet
}

// telling reports to OnAttach once the last of the messages has had its turn: what
// waits in an outbox, for a client that does not read, has told nobody.
func (a *attachment) telling(build func() (*controlpb.ServerMessage, ipc.FDs, error)) func() (*controlpb.ServerMessage,
	ipc.FDs, error) {
	return func() (*controlpb.ServerMessage, ipc.FDs, error) {
		msg, fds, err := build()
		if msg == nil || err != nil || a.untold.Add(-1) > 0 {
			return msg, fds, err
		}
		returned := false
		defer func() {
			if !returned {
				fds.Close() // the hook panicked
			}
		}()
		a.server.config.OnAttach(time.Duration(a.server.config.Now().UnixNano() - a.since))
		returned = true
		return msg, fds, nil
	}
}

// inputReady makes the consumer's notification. If its descriptors cannot be
// made, the request ends with the reason.
func (r *hostedRegion) inputReady(channel *hostedChannel,
	request *registry.SubpartitionRequest) (*controlpb.ServerMessage, ipc.FDs, error) {
	fds, err := r.server.share(channel.gate.session.outbox.Ended(),
		func() (ipc.FDs, error) { return shareReadOnly(r.memory.memfd, r.memory.doorbell) })
	if err != nil {
		if !errors.Is(err, memseg.ErrClosed) {
			request.Abort(describeShortage(err))
		}
		return nil, nil, nil
	}
	return &controlpb.ServerMessage{Body: &controlpb.ServerMessage_InputReady{InputReady: &controlpb.InputReady{
		GateId: channel.gate.id, Channel: uint32(channel.index), PartitionId: r.spec.ID[:],
		Subpartition: uint32(request.Subpartition()), Epoch: r.layout.Epoch, RegionSize: uint64(r.memory.memfd.Size()),
		DoorbellSize: uint64(r.memory.doorbell.Size()),
	}}}, fds, nil
}

// consumerAttached makes the producer's notification.
func (r *hostedRegion) consumerAttached(channel *hostedChannel,
	request *registry.SubpartitionRequest) (*controlpb.ServerMessage, ipc.FDs, error) {
	gate := channel.gate
	fds, err := r.server.share(nil, func() (ipc.FDs, error) { return shareReadOnly(gate.memfd, gate.doorbell) })
	if err != nil {
		if !errors.Is(err, memseg.ErrClosed) {
			request.Abort(describeShortage(err))
		}
		return nil, nil, nil
	}
	return &controlpb.ServerMessage{
		Body: &controlpb.ServerMessage_ConsumerAttached{ConsumerAttached: &controlpb.ConsumerAttached{
			Epoch: r.layout.Epoch, Subpartition: uint32(request.Subpartition()), GateId: gate.id,
			Channel:  uint32(channel.index),
			Channels: uint32(gate.layout.Channels), GateRegionSize: uint64(gate.memfd.Size()),
			DoorbellSize: uint64(gate.doorbell.Size()),
		}},
	}, fds, nil
}

// ConsumerDetached implements shuffle.PartitionHost.
func (r *hostedRegion) ConsumerDetached(subpartition int, consumed bool, reason string) {
	r.notifyProducer(
		&controlpb.ServerMessage{
			Body: &controlpb.ServerMessage_ConsumerDetached{ConsumerDetached: &controlpb.ConsumerDetached{
				Epoch: r.layout.Epoch, Subpartition: uint32(subpartition), Consumed: consumed,
				Reason: foreigntext.Cut(reason, ipc.MaxErrorMessage),
			}},
		},
	)
}

// Ended implements shuffle.PartitionHost.
func (r *hostedRegion) Ended(err error) {
	r.creation.abandon(err)
	r.endGrant(err)
	r.notifyProducer(
		&controlpb.ServerMessage{
			Body: &controlpb.ServerMessage_PartitionReleased{PartitionReleased: &controlpb.PartitionReleased{
				Epoch: r.layout.Epoch, Error: ipc.EncodeError(err),
			}},
		},
	)
}

func (r *hostedRegion) notifyProducer(msg *controlpb.ServerMessage) {
	if producer := r.session.Load(); producer != nil {
		producer.notifyFunc(func() (*controlpb.ServerMessage, ipc.FDs, error) { return msg, nil, nil })
	}
}

// shareAttempts is how often descriptors are asked for before whoever waits for
// them is refused, a second at most.
const shareAttempts = 16

// share calls one of the functions below, and again while this process has no
// file to open.
func (s *Server) share(ended <-chan struct{}, open func() (ipc.FDs, error)) (fds ipc.FDs, err error) {
	err = ipc.RetryShortage(s.sendPutOff, ended, shareAttempts, func() error {
		fds, err = open()
		return err
	})
	return fds, err
}

// shareReadOnly returns descriptors for a peer that may read the region and ring
// the doorbell.
func shareReadOnly(region, doorbell *memseg.Memfd) (ipc.FDs, error) {
	regionFD, err := region.ReopenReadOnly()
	if err != nil {
		return nil, err
	}
	doorbellFD, err := doorbell.HandOut()
	if err != nil {
		_ = unix.Close(regionFD)
		return nil, err
	}
	return ipc.FDs{regionFD, doorbellFD}, nil
}

// shareReadWrite returns descriptors for the owner of a region, which gets them once.
func shareReadWrite(region, doorbell *memseg.Memfd) (ipc.FDs, error) {
	regionFD, err := region.HandOut()
	if err != nil {
		return nil, err
	}
	doorbellFD, err := doorbell.HandOut()
	if err != nil {
		_ = unix.Close(regionFD)
		return nil, err
	}
	return ipc.FDs{regionFD, doorbellFD}, nil
}

// asNotification adapts a function that makes a notification to an Outbox.
func asNotification(build func() (*controlpb.ServerMessage, ipc.FDs, error)) func() (proto.Message, ipc.FDs, error) {
	return func() (proto.Message, ipc.FDs, error) {
		msg, fds, err := build()
		if msg == nil || err != nil {
			return nil, fds, err
		}
		return msg, fds, nil
	}
}
