package daemon

import "shuffled/pool"

// A segmentFlow says where the segments of a region are: with the producer, in stock, or
// with the pool. The producer requests segments and gets as many, never more; what it has
// requested comes out of the stock, which the grant fills. hostedRegion.mu guards it.
type segmentFlow struct {
	set          *pool.SegmentSet // taken ones are with the producer
	withProducer int              // how many those are
	requested    int              // by the producer, and not handed over
	stock        int              // granted, and not handed over
	awaited      int              // asked of the grant, and not granted
	returning    int              // on their way back to the grant
}

// lack is how many segments the producer has requested that nobody has promised yet.
func (f *segmentFlow) lack() int { return f.requested - f.stock - f.awaited }

// toAsk is how much of the lack the grant of a region of so many segments can still give:
// what exceeds its maximum it would forget.
func (f *segmentFlow) toAsk(segments int) int {
	return min(f.lack(), segments-f.withProducer-f.stock-f.awaited-f.returning)
}

// asked notes that the grant was asked for n segments and gave some of them at once.
func (f *segmentFlow) asked(n, granted int) {
	f.stock += granted
	f.awaited += n - granted
}

// takeOut takes up to limit requested segments out of the stock. They are with the
// producer once handedOver is called; putBack undoes it.
func (f *segmentFlow) takeOut(limit int) []int { return f.set.Take(min(f.stock, f.requested, limit)) }

func (f *segmentFlow) putBack(segments []int) { _ = f.set.Return(segments) }

func (f *segmentFlow) handedOver(n int) {
	f.withProducer += n
	f.requested -= n
	f.stock -= n
}

// takeBack takes segments from the producer, which are on nobody's account then: the
// caller puts them in stock or sets them aside. One that the producer does not have is an
// error, and changes nothing.
func (f *segmentFlow) takeBack(segments []int) error {
	if err := f.set.Return(segments); err != nil {
		return err
	}
	f.withProducer -= len(segments)
	return nil
}

// setAside takes n segments out of the stock that are to go back to the grant.
func (f *segmentFlow) setAside(n int) {
	f.stock -= n
	f.returning += n
}
