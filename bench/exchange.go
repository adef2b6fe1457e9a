package bench

import (
	"context"
	"fmt"
	"time"

	"shuffled/client"
	"shuffled/shuffle"
)

// inputTimeout is how long a consumer waits for producers that are starting.
const inputTimeout = time.Minute

// An Exchange is one all-to-all shuffle: each of the producers has a partition
// with a subpartition for each of the consumers. All its workers know it.
type Exchange struct {
	// Name tells the exchanges of one daemon apart.
	Name                 string
	Socket               string
	Producers, Consumers int
	// PartitionType is that of all partitions; 0 is the default.
	PartitionType shuffle.ResultPartitionType

	// local, if set, is what workers within this process use instead of the
	// socket.
	local *client.Client
}

// newExchangeName returns a name that no other exchange has.
func newExchangeName() string { return "bench-" + shuffle.NewPartitionID().String()[:16] }

// connect returns a client, and a function that ends the use of it.
func (e *Exchange) connect(ctx context.Context, worker string) (*client.Client, func(), error) {
	if e.local != nil {
		return e.local, func() {}, nil
	}
	c, err := client.Dial(ctx, client.WithSocket(e.Socket), client.WithName(e.Name+"/"+worker))
	if err != nil {
		return nil, nil, err
	}
	return c, func() { _ = c.Close() }, nil
}

func (e *Exchange) partition(producer int) shuffle.PartitionID {
	return shuffle.NamedPartitionID(fmt.Sprintf("%s/producer-%d", e.Name, producer))
}

// create returns the partition of a producer.
func (e *Exchange) create(ctx context.Context, c *client.Client, producer int) (shuffle.ResultPartition, error) {
	return c.CreatePartition(ctx, shuffle.PartitionSpec{
		ID: e.partition(producer), Name: fmt.Sprintf("%s/producer-%d", e.Name, producer), Subpartitions: e.Consumers,
		Type: e.PartitionType,
	})
}

// open returns the gate of a consumer: its subpartition of every partition.
func (e *Exchange) open(ctx context.Context, c *client.Client, consumer int) (shuffle.InputGate, error) {
	spec := shuffle.GateSpec{Name: fmt.Sprintf("%s/consumer-%d", e.Name, consumer), Timeout: inputTimeout}
	for producer := range e.Producers {
		spec.Inputs = append(spec.Inputs, shuffle.Input{Partition: e.partition(producer), Subpartition: consumer})
	}
	return c.OpenGate(ctx, spec)
}
