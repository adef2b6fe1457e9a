package reader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"shuffled/internal/absent"
	"shuffled/internal/ctxerr"
	"shuffled/shuffle"
)

// WaitAny waits until one of several gates is available, see shuffle.InputGate, and
// returns its index; of several that are, any one. A gate that has ended or failed is
// available, which Next tells: leave it out from then on.
//
// An error of ctx comes with index -1, that of a gate's WaitAvailable with its index. No
// gate, one that is nil, and no context are shuffle.ErrInvalidArgument. It reads the gates
// as Next does: nobody else may meanwhile, and each is there once.
func WaitAny(ctx context.Context, gates ...shuffle.InputGate) (index int, err error) {
	if ctx == nil || len(gates) == 0 {
		return -1, fmt.Errorf("wait for %d gates, with the context %v: %w", len(gates), ctx, shuffle.ErrInvalidArgument)
	}
	for i, g := range gates {
		if absent.Is(g) {
			return i, fmt.Errorf("wait for gates: gate %d is nil: %w", i, shuffle.ErrInvalidArgument)
		}
		if before := slices.Index(gates, g); before < i {
			return i, fmt.Errorf("wait for gates: gate %d is gate %d: %w", i, before, shuffle.ErrInvalidArgument)
		}
	}
	if ctx.Err() != nil {
		return -1, fmt.Errorf("wait for gates: %w", ctxerr.Of(ctx))
	}
	first := rand.IntN(len(gates)) // so that no gate is passed over for ever
	for i := 0; i < len(gates); i++ {
		if at := (first + i) % len(gates); gates[at].IsAvailable() {
			return at, nil
		}
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	type outcome struct {
		index int
		err   error
	}
	outcomes := make(chan outcome)
	for i, g := range gates {
		go func() { outcomes <- outcome{i, g.WaitAvailable(waiting)} }()
	}
	chosen := <-outcomes
	stop()
	for range len(gates) - 1 { // until nobody reads a gate any more
		<-outcomes
	}
	if chosen.err != nil && ctx.Err() != nil {
		chosen.index = -1
	}
	return chosen.index, chosen.err
}
