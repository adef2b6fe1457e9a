package ipc

import (
	"fmt"
	"time"

	"shuffled/internal/foreigntext"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// EncodePartitionInfo makes the row of a partition that an operator is sent.
func EncodePartitionInfo(i *shuffle.PartitionInfo) *controlpb.PartitionInfo {
	m := &controlpb.PartitionInfo{
		PartitionId: i.ID[:], Attempt: i.Attempt, Name: i.Name, Type: uint32(i.Type), State: i.State,
		Subpartitions: uint32(i.Subpartitions), PoolRequired: uint32(i.PoolRequired), PoolMax: uint32(i.PoolMax),
		PoolSize: uint32(i.PoolSize), SegmentsHeld: uint32(i.SegmentsHeld), BytesOut: i.BytesOut,
		BuffersOut:      i.BuffersOut,
		BackPressuredNs: uint64(i.BackPressured), ProducerPid: uint32(i.Producer.PID), ProducerUid: i.Producer.UID,
		ProducerGid: i.Producer.GID, ProducerAttached: i.ProducerAttached,
		Failure:         foreigntext.Cut(i.Failure, MaxErrorMessage),
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
			Index: uint32(s.Index), State: s.State, BuffersPublished: s.BuffersPublished,
			BuffersReleased: s.BuffersReleased,
			BytesOut:        s.BytesOut, ConsumerPid: uint32(s.Consumer.PID), ConsumerUid: s.Consumer.UID,
			ConsumerGid: s.Consumer.GID,
			GateId:      s.GateID, Channel: uint32(s.Channel),
		})
	}
	return m
}

// DecodePartitionInfo reads a row that a daemon sent. An id of a wrong length is
// shuffle.ErrProtocol.
func DecodePartitionInfo(m *controlpb.PartitionInfo) (shuffle.PartitionInfo, error) {
	id, err := DecodePartitionID(m.GetPartitionId())
	if err != nil {
		return shuffle.PartitionInfo{}, fmt.Errorf("partition_info.partition_id: %w: %w", err, shuffle.ErrProtocol)
	}
	i := shuffle.PartitionInfo{
		ID: id, Attempt: m.GetAttempt(), Name: m.GetName(), Type: shuffle.ResultPartitionType(m.GetType()),
		State:         m.GetState(),
		Subpartitions: int(m.GetSubpartitions()), Created: time.Unix(0, m.GetCreatedUnixNano()),
		Failure: m.GetFailure(),
		Producer: shuffle.Principal{UID: m.GetProducerUid(), GID: m.GetProducerGid(),
			PID: int32(m.GetProducerPid())},
		ProducerAttached: m.GetProducerAttached(),
		PoolRequired:     int(m.GetPoolRequired()), PoolMax: int(m.GetPoolMax()), PoolSize: int(m.GetPoolSize()),
		SegmentsHeld: int(m.GetSegmentsHeld()), BytesOut: m.GetBytesOut(), BuffersOut: m.GetBuffersOut(),
		Records:       m.GetRecords(),
		BackPressured: time.Duration(m.GetBackPressuredNs()), WakeUps: m.GetWakeUps(),
		HeldBytes: int64(m.GetHeldBytes()),
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
			Index: int(s.GetIndex()), State: s.GetState(), BuffersPublished: s.GetBuffersPublished(),
			BuffersReleased: s.GetBuffersReleased(),
			BytesOut:        s.GetBytesOut(), Consumer: shuffle.Principal{UID: s.GetConsumerUid(),
				GID: s.GetConsumerGid(), PID: int32(s.GetConsumerPid())},
			GateID: s.GetGateId(), Channel: int(s.GetChannel()),
		})
	}
	return i, nil
}
