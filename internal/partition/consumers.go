package partition

import (
	"fmt"

	"shuffled/internal/foreigntext"
	"shuffled/shuffle"
)

// AttachConsumer connects the consumer of a subpartition and wakes it.
func (p *ResultPartition) AttachConsumer(subpartition int, link *ConsumerLink) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	if link == nil || link.bell == nil {
		return fmt.Errorf("partition %s: the link to the consumer of subpartition %d was not made by NewConsumerLink: %w", p.label(), subpartition, shuffle.ErrInvalidArgument)
	}
	if subpartition < 0 || subpartition >= len(p.subpartitions) {
		return fmt.Errorf("partition %s: attach to subpartition %d of %d: %w", p.label(), subpartition,
			len(p.subpartitions), shuffle.ErrProtocol)
	}
	if err := p.subpartitions[subpartition].attach(link); err != nil {
		return fmt.Errorf("partition %s: %w", p.label(), err)
	}
	p.bell.Wake() // a blocked writer must arm at the new consumer
	return nil
}

// DetachConsumer drops the consumer of a subpartition. One that has consumed
// everything is simply done; otherwise the partition's policy decides.
func (p *ResultPartition) DetachConsumer(subpartition int, consumed bool, reason string) {
	if p.enter() != nil {
		return
	}
	defer p.leave()
	if subpartition < 0 || subpartition >= len(p.subpartitions) {
		return
	}
	s := p.subpartitions[subpartition]
	if consumed {
		s.detach(true)
		p.bell.Wake()
		return
	}
	p.consumerLost(s, fmt.Errorf("subpartition %d: %s", subpartition, foreigntext.Graphic(reason)))
}

func (p *ResultPartition) consumerLost(s *ResultSubpartition, cause error) {
	s.detach(true)
	if p.spec.OnConsumerLost == shuffle.FailOnConsumerLost {
		err := fmt.Errorf("partition %s: %w: %w", p.label(), shuffle.ErrConsumerLost, cause)
		p.ended.CompareAndSwap(nil, &err)
	}
	p.bell.Wake()
}
