package client

import (
	"context"
	"fmt"

	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// List returns the partitions that the daemon has and this user may read; root
// and the daemon's own user see all of them. Partitions that come or go
// meanwhile may or may not be among them.
func (c *Client) List(ctx context.Context) ([]shuffle.PartitionInfo, error) {
	var (
		rows    []shuffle.PartitionInfo
		request = &controlpb.ListPartitions{}
	)
	for {
		answer, err := c.call(ctx, &controlpb.ClientMessage{Body: &controlpb.ClientMessage_ListPartitions{
			ListPartitions: request,
		}}, nil)
		if err != nil {
			return nil, fmt.Errorf("list partitions: %w", err)
		}
		answer.drop()
		page := answer.msg.GetPartitionList()
		for _, m := range page.GetPartitions() {
			row, err := ipc.DecodePartitionInfo(m)
			if err != nil {
				return nil, fmt.Errorf("list partitions: %w", err)
			}
			rows = append(rows, row)
		}
		if !page.GetMore() || len(page.GetPartitions()) == 0 {
			return rows, nil
		}
		last := &rows[len(rows)-1]
		request = &controlpb.ListPartitions{After: last.ID[:], AfterOwner: &last.Producer.UID}
	}
}

// Inspect returns what the daemon knows of a partition of this user, or else of the
// only one of that id that this user may read, with a row for each of its first
// 1024 subpartitions. Without one it returns shuffle.ErrPartitionNotFound, or what
// became of it; if there are several, ErrInvalidArgument: see InspectOf.
func (c *Client) Inspect(ctx context.Context, id shuffle.PartitionID) (shuffle.PartitionInfo, error) {
	return c.inspect(ctx, &controlpb.InspectPartition{PartitionId: id[:]})
}

// InspectOf is Inspect of the partition of a certain user.
func (c *Client) InspectOf(ctx context.Context, id shuffle.PartitionID, owner uint32) (shuffle.PartitionInfo, error) {
	return c.inspect(ctx, &controlpb.InspectPartition{PartitionId: id[:], OwnerUid: &owner})
}

func (c *Client) inspect(ctx context.Context, m *controlpb.InspectPartition) (shuffle.PartitionInfo, error) {
	answer, err := c.call(ctx,
		&controlpb.ClientMessage{Body: &controlpb.ClientMessage_InspectPartition{InspectPartition: m}}, nil)
	if err != nil {
		return shuffle.PartitionInfo{}, during(fmt.Sprintf("inspect partition %x", m.GetPartitionId()), err)
	}
	answer.drop()
	return ipc.DecodePartitionInfo(answer.msg.GetPartitionInfo())
}

// NextAttempt returns the lowest attempt of a partition of this user that can be
// created: 0 if the daemon knows of none, and one more than the newest that is
// there or has ended. To create it ends the attempt that is still produced, if
// there is one. Who else asks meanwhile gets the same number, and only one of them
// can create it. After shuffle.MaxAttempt there is none: the error is
// shuffle.ErrFenced.
func (c *Client) NextAttempt(ctx context.Context, id shuffle.PartitionID) (uint32, error) {
	answer, err := c.call(ctx, &controlpb.ClientMessage{Body: &controlpb.ClientMessage_NextAttempt{
		NextAttempt: &controlpb.NextAttempt{PartitionId: id[:]},
	}}, nil)
	if err != nil {
		return 0, during("next attempt of partition "+id.String(), err)
	}
	answer.drop()
	return answer.msg.GetNextAttemptReply().GetAttempt(), nil
}
