package ipc

import (
	"fmt"
	"math"
	"os"
	"time"

	"shuffled/internal/daemon/registry"
	"shuffled/internal/foreigntext"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// Rows of the operator's answers, so that they fit a message.
const (
	maxListRows       = 150
	maxInspectRows    = 1024
	maxFailureInLists = 256
)

func (s *session) handleListPartitions(requestID uint64, m *controlpb.ListPartitions) error {
	after := m.GetAfter()
	if len(after) != 0 && len(after) != len(shuffle.PartitionID{}) {
		return fieldError("list_partitions.after", fmt.Sprintf("%d bytes", len(after)), "0 or 16", shuffle.ErrInvalidArgument)
	}
	size := int(min(m.GetPageSize(), maxListRows))
	if size == 0 {
		size = maxListRows
	}
	var key registry.PartitionKey // the least one
	if len(after) > 0 {
		key = registry.PartitionKey{ID: shuffle.PartitionID(after), Owner: math.MaxUint32}
	}
	if m.AfterOwner != nil {
		key.Owner = m.GetAfterOwner()
	}
	s.answerFunc(requestID, largeAnswer, func() (*controlpb.ServerMessage, FDs, error) {
		list := s.listPartitions(key, size)
		return &controlpb.ServerMessage{Body: &controlpb.ServerMessage_PartitionList{PartitionList: list}}, nil, nil
	})
	return nil
}

// listPartitions makes a page of the list. For any goroutine.
func (s *session) listPartitions(after registry.PartitionKey, size int) *controlpb.PartitionList {
	rows, more := s.server.partitions.Page(after, size, s.operator())
	list := &controlpb.PartitionList{More: more}
	for i := range rows {
		row := &rows[i]
		row.Host.(*hostedRegion).fillIn(&row.PartitionInfo)
		m := encodePartitionInfo(&row.PartitionInfo)
		m.Failure = foreigntext.Cut(m.Failure, maxFailureInLists)
		list.Partitions = append(list.Partitions, m)
	}
	return list
}

// operator lets root and the daemon's own user see everything, and others what
// they may read.
func (s *session) operator() shuffle.Principal {
	if s.who.UID == uint32(os.Geteuid()) {
		return shuffle.Principal{UID: 0}
	}
	return s.who
}

func (s *session) handleInspectPartition(id uint64, m *controlpb.InspectPartition) error {
	partition, err := shuffle.PartitionIDFromBytes(m.GetPartitionId())
	if err != nil {
		return fmt.Errorf("inspect_partition.partition_id: %w", err)
	}
	s.answerFunc(id, largeAnswer, func() (*controlpb.ServerMessage, FDs, error) {
		row, err := s.server.partitions.Row(partition, m.OwnerUid, s.operator(), maxInspectRows)
		if err != nil {
			return nil, nil, fmt.Errorf("inspect: %w", err)
		}
		row.Host.(*hostedRegion).fillIn(&row.PartitionInfo)
		return &controlpb.ServerMessage{Body: &controlpb.ServerMessage_PartitionInfo{PartitionInfo: encodePartitionInfo(&row.PartitionInfo)}}, nil, nil
	})
	return nil
}

func encodePartitionInfo(i *shuffle.PartitionInfo) *controlpb.PartitionInfo {
	m := &controlpb.PartitionInfo{
		PartitionId: i.ID[:], Attempt: i.Attempt, Name: i.Name, Type: uint32(i.Type), State: i.State,
		Subpartitions: uint32(i.Subpartitions), PoolRequired: uint32(i.PoolRequired), PoolMax: uint32(i.PoolMax),
		PoolSize: uint32(i.PoolSize), SegmentsHeld: uint32(i.SegmentsHeld), BytesOut: i.BytesOut, BuffersOut: i.BuffersOut,
		BackPressuredNs: uint64(i.BackPressured), ProducerPid: uint32(i.Producer.PID), ProducerUid: i.Producer.UID,
		ProducerGid: i.Producer.GID, ProducerAttached: i.ProducerAttached, Failure: foreigntext.Cut(i.Failure, maxErrorMessage),
		CreatedUnixNano: i.Created.UnixNano(), Records: i.Records, WakeUps: i.WakeUps, HeldBytes: uint64(i.HeldBytes),
	}
	if i.Readers > 0 {
		m.Readers, m.StillSinceUnixNano = uint32(i.Readers), i.StillSince.UnixNano()
		m.KeeperPid, m.KeeperUid, m.KeeperGid = uint32(i.Keeper.PID), i.Keeper.UID, i.Keeper.GID
	}
	if !i.Ended.IsZero() {
		m.EndedUnixNano = i.Ended.UnixNano()
	}
	for _, s := range i.SubpartitionInfo {
		m.SubpartitionInfo = append(m.SubpartitionInfo, &controlpb.SubpartitionInfo{
			Index: uint32(s.Index), State: s.State, BuffersPublished: s.BuffersPublished, BuffersReleased: s.BuffersReleased,
			BytesOut: s.BytesOut, ConsumerPid: uint32(s.Consumer.PID), ConsumerUid: s.Consumer.UID, ConsumerGid: s.Consumer.GID,
			GateId: s.GateID, Channel: uint32(s.Channel),
		})
	}
	return m
}

// DecodePartitionInfo reads a row that a daemon sent. An id of a wrong length is
// shuffle.ErrProtocol.
func DecodePartitionInfo(m *controlpb.PartitionInfo) (shuffle.PartitionInfo, error) {
	id, err := shuffle.PartitionIDFromBytes(m.GetPartitionId())
	if err != nil {
		return shuffle.PartitionInfo{}, fmt.Errorf("partition_info.partition_id: %w: %w", err, shuffle.ErrProtocol)
	}
	i := shuffle.PartitionInfo{
		ID: id, Attempt: m.GetAttempt(), Name: m.GetName(), Type: shuffle.ResultPartitionType(m.GetType()), State: m.GetState(),
		Subpartitions: int(m.GetSubpartitions()), Created: time.Unix(0, m.GetCreatedUnixNano()), Failure: m.GetFailure(),
		Producer:         shuffle.Principal{UID: m.GetProducerUid(), GID: m.GetProducerGid(), PID: int32(m.GetProducerPid())},
		ProducerAttached: m.GetProducerAttached(),
		PoolRequired:     int(m.GetPoolRequired()), PoolMax: int(m.GetPoolMax()), PoolSize: int(m.GetPoolSize()),
		SegmentsHeld: int(m.GetSegmentsHeld()), BytesOut: m.GetBytesOut(), BuffersOut: m.GetBuffersOut(), Records: m.GetRecords(),
		BackPressured: time.Duration(m.GetBackPressuredNs()), WakeUps: m.GetWakeUps(), HeldBytes: int64(m.GetHeldBytes()),
	}
	if i.Readers = int(m.GetReaders()); i.Readers > 0 {
		i.Keeper = shuffle.Principal{UID: m.GetKeeperUid(), GID: m.GetKeeperGid(), PID: int32(m.GetKeeperPid())}
		i.StillSince = time.Unix(0, m.GetStillSinceUnixNano())
	}
	if m.GetEndedUnixNano() != 0 {
		i.Ended = time.Unix(0, m.GetEndedUnixNano())
	}
	for _, s := range m.GetSubpartitionInfo() {
		i.SubpartitionInfo = append(i.SubpartitionInfo, shuffle.SubpartitionInfo{
			Index: int(s.GetIndex()), State: s.GetState(), BuffersPublished: s.GetBuffersPublished(), BuffersReleased: s.GetBuffersReleased(),
			BytesOut: s.GetBytesOut(), Consumer: shuffle.Principal{UID: s.GetConsumerUid(), GID: s.GetConsumerGid(), PID: int32(s.GetConsumerPid())},
			GateID: s.GetGateId(), Channel: int(s.GetChannel()),
		})
	}
	return i, nil
}

func (s *session) handleWithdrawPartition(id uint64, m *controlpb.WithdrawPartition) error {
	partition, err := shuffle.PartitionIDFromBytes(m.GetPartitionId())
	if err != nil {
		return fmt.Errorf("withdraw_partition.partition_id: %w", err)
	}
	row, err := s.server.partitions.Row(partition, m.OwnerUid, s.operator(), 0)
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	reason := fmt.Sprintf("by the operator (uid %d, pid %d)", s.who.UID, s.who.PID)
	if err := s.server.partitions.Withdraw(partition, row.Producer.UID, s.operator(), reason); err != nil {
		return err
	}
	s.log.Info("partition is released", "partition", partition, "name", row.Name, "owner", row.Producer.UID)
	s.acknowledge(id)
	return nil
}
