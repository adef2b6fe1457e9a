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
		rows  []shuffle.PartitionInfo
		after []byte
	)
	for {
		answer, err := c.call(ctx, &controlpb.ClientMessage{Body: &controlpb.ClientMessage_ListPartitions{
			ListPartitions: &controlpb.ListPartitions{After: after},
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
		after = rows[len(rows)-1].ID[:]
	}
}

// Inspect returns what the daemon knows of a partition, with a row for each of
// its first 1024 subpartitions. Without one that this user may read it returns
// shuffle.ErrPartitionNotFound, or what became of it.
func (c *Client) Inspect(ctx context.Context, id shuffle.PartitionID) (shuffle.PartitionInfo, error) {
	answer, err := c.call(ctx, &controlpb.ClientMessage{Body: &controlpb.ClientMessage_InspectPartition{
		InspectPartition: &controlpb.InspectPartition{PartitionId: id[:]},
	}}, nil)
	if err != nil {
		return shuffle.PartitionInfo{}, during("inspect partition "+id.String(), err)
	}
	answer.drop()
	return ipc.DecodePartitionInfo(answer.msg.GetPartitionInfo())
}
