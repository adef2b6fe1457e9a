package daemon

import (
	"fmt"
	"math"
	"os"

	"shuffled/internal/daemon/registry"
	"shuffled/internal/foreigntext"
	"shuffled/ipc"
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
		return fieldError("list_partitions.after", fmt.Sprintf("%d bytes", len(after)), "0 or 16",
			shuffle.ErrInvalidArgument)
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
	s.answerFunc(requestID, largeAnswer, func() (*controlpb.ServerMessage, ipc.FDs, error) {
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
		m := ipc.EncodePartitionInfo(&row.PartitionInfo)
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
	partition, err := ipc.DecodePartitionID(m.GetPartitionId())
	if err != nil {
		return fmt.Errorf("inspect_partition.partition_id: %w", err)
	}
	s.answerFunc(id, largeAnswer, func() (*controlpb.ServerMessage, ipc.FDs, error) {
		row, err := s.server.partitions.Row(partition, m.OwnerUid, s.operator(), maxInspectRows)
		if err != nil {
			return nil, nil, fmt.Errorf("inspect: %w", err)
		}
		row.Host.(*hostedRegion).fillIn(&row.PartitionInfo)
		return &controlpb.ServerMessage{
			Body: &controlpb.ServerMessage_PartitionInfo{PartitionInfo: ipc.EncodePartitionInfo(&row.PartitionInfo)},
		}, nil, nil
	})
	return nil
}

func (s *session) handleWithdrawPartition(id uint64, m *controlpb.WithdrawPartition) error {
	partition, err := ipc.DecodePartitionID(m.GetPartitionId())
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
