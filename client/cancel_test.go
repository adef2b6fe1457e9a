package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

// Every call is given up at random moments: it returns, and what it had asked
// for is given back.
func TestCallsThatAreGivenUpLeaveNothing(t *testing.T) {
	const rounds = 300
	d := startDaemon(t, testConfig())
	c := d.dial(t)
	existing := spec(1)
	create(t, c, existing)
	for name, call := range map[string]func(ctx context.Context) error{
		"create": func(ctx context.Context) error {
			p, err := c.CreatePartition(ctx, spec(2))
			if err == nil {
				require.NoError(t, p.Close())
			}
			return err
		},
		"finish, fail, release": func(ctx context.Context) error {
			p, err := c.CreatePartition(testContext(t), spec(1))
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Close()) }()
			switch rand.IntN(3) {
			case 0:
				return p.Finish(ctx)
			case 1:
				return p.Fail(ctx, errors.New("no reason"))
			}
			return p.Release(ctx)
		},
		"open gate": func(ctx context.Context) error {
			g, err := c.OpenGate(ctx, gateOf(shuffle.NewPartitionID(), 0, 1, 2))
			if err == nil {
				require.NoError(t, g.Close())
			}
			return err
		},
		"next": func(ctx context.Context) error {
			g, err := c.OpenGate(testContext(t), gateOf(shuffle.NewPartitionID(), 0))
			require.NoError(t, err)
			defer func() { require.NoError(t, g.Close()) }()
			_, err = g.Next(ctx)
			return err
		},
		"emit": func(ctx context.Context) error {
			p, err := c.CreatePartition(testContext(t), spec(1))
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Close()) }()
			for err == nil { // until all segments are full
				err = p.EmitRecord(ctx, framed(string(make([]byte, 4000))), 0)
			}
			return err
		},
		"list": func(ctx context.Context) error {
			_, err := c.List(ctx)
			return err
		},
		"inspect": func(ctx context.Context) error {
			_, err := c.Inspect(ctx, existing.ID)
			return err
		},
		"dial": func(ctx context.Context) error {
			other, err := Dial(ctx, WithSocket(d.path))
			if err == nil {
				require.NoError(t, other.Close())
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range rounds {
				ctx, cancel := context.WithCancelCause(context.Background())
				why := errors.New("given up")
				time.AfterFunc(time.Duration(rand.IntN(500))*time.Microsecond, func() { cancel(why) })
				if err := call(ctx); err != nil && !errors.Is(err, why) {
					require.ErrorIs(t, err, context.Canceled, "some of the net package's errors know no cause")
				}
				cancel(nil)
			}
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			require.ErrorIs(t, call(ended), context.Canceled, "and before it has begun")
			// Only finished partitions that nobody reads stay.
			require.Eventually(t, func() bool {
				for _, row := range d.Snapshot().Partitions {
					if row.ID != existing.ID && row.State != "finished" {
						return false
					}
				}
				return d.Snapshot().Gates == 0 && d.Snapshot().Connections == 1
			}, patience, time.Millisecond)
		})
	}
}
