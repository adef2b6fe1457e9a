package client

import (
	"context"
	"fmt"
	"time"

	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// ClientInfo is what an operator sees of a client of the daemon.
type ClientInfo struct {
	// ID is unique for the life of the daemon.
	ID      uint64
	Name    string
	Process shuffle.Principal
	// Connected is when it came, Idle how long it has sent nothing.
	Connected time.Time
	Idle      time.Duration
	// Greeted is false for one that has not said hello.
	Greeted bool
	// Partitions are those that it produces, Gates and Inputs those that it reads by.
	Partitions, Gates, Inputs int
	// UnsentMessages wait in the daemon since the client does not read; UnsentBytes
	// are those of them that are made already.
	UnsentMessages int
	UnsentBytes    int64
	// DescriptorsUnderWay and BytesUnderWay were sent and, as far as the daemon
	// knows, not received.
	DescriptorsUnderWay int
	BytesUnderWay       int64
}

// Clients returns the clients of the daemon by rising id: all of them for root and
// the daemon's own user, those of the same user for others. This one is among them.
func (c *Client) Clients(ctx context.Context) ([]ClientInfo, error) {
	var rows []ClientInfo
	request := &controlpb.ListClients{}
	for {
		answer, err := c.call(ctx,
			&controlpb.ClientMessage{Body: &controlpb.ClientMessage_ListClients{ListClients: request}}, nil)
		if err != nil {
			return nil, during("list clients", err)
		}
		answer.drop()
		page := answer.msg.GetClientList()
		for _, m := range page.GetClients() {
			rows = append(rows, ClientInfo{
				ID: m.GetId(), Name: m.GetName(), Process: shuffle.Principal{UID: m.GetUid(), GID: m.GetGid(),
					PID: int32(m.GetPid())},
				Connected: time.Unix(0, m.GetConnectedUnixNano()), Idle: time.Duration(m.GetIdleNs()),
				Greeted:    m.GetGreeted(),
				Partitions: int(m.GetPartitions()), Gates: int(m.GetGates()), Inputs: int(m.GetInputs()),
				UnsentMessages: int(m.GetUnsentMessages()), UnsentBytes: int64(m.GetUnsentBytes()),
				DescriptorsUnderWay: int(m.GetDescriptorsUnderWay()), BytesUnderWay: int64(m.GetBytesUnderWay()),
			})
		}
		if !page.GetMore() || len(page.GetClients()) == 0 {
			return rows, nil
		}
		request = &controlpb.ListClients{After: rows[len(rows)-1].ID}
	}
}

// Kick ends the connection of a client, which loses everything as if it had died:
// any client for root and the daemon's own user, one of the same user for others. It
// returns when the daemon has begun to; shuffle.ErrInvalidArgument says that there is
// no such client, or none that this user may kick.
func (c *Client) Kick(ctx context.Context, id uint64) error {
	answer, err := c.call(ctx, &controlpb.ClientMessage{Body: &controlpb.ClientMessage_KickClient{
		KickClient: &controlpb.KickClient{ClientId: id},
	}}, nil)
	if err != nil {
		return during(fmt.Sprintf("kick client %d", id), err)
	}
	answer.drop()
	return nil
}

// Withdraw releases a partition of a user, all attempts of it, whatever holds it.
// Its consumers get shuffle.ErrPartitionReleased; a second later its memory is taken
// away also from processes that hang. What a consumer's user holds at that moment, a
// record in place or a buffer, may turn to zeros; nothing but the error comes after it.
// Only root, the daemon's own user and the owner may: shuffle.ErrPermission. It returns
// when everybody was told; without such a partition shuffle.ErrPartitionNotFound, or
// what became of it.
func (c *Client) Withdraw(ctx context.Context, id shuffle.PartitionID, owner uint32) error {
	answer, err := c.call(ctx, &controlpb.ClientMessage{Body: &controlpb.ClientMessage_WithdrawPartition{
		WithdrawPartition: &controlpb.WithdrawPartition{PartitionId: id[:], OwnerUid: &owner},
	}}, nil)
	if err != nil {
		return during("release partition "+id.String(), err)
	}
	answer.drop()
	return nil
}
