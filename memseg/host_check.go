package memseg

import (
	"errors"
	"fmt"
	"os"
)

// A HostStep is something that shared memory needs of the host.
type HostStep struct {
	// Does says what is done, for people.
	Does string
	// Err is why it was refused; nil if it was not. It wraps an *os.SyscallError with
	// the name of the call.
	Err error
}

// CheckHost does with one object what the daemon does with those of partitions: an
// object as large as the largest of them, of which a page is backed. It returns the
// steps up to the first that is refused. Seal asks for what strict isolation needs.
func CheckHost(largest int64, seal bool) []HostStep {
	c := &hostCheck{page: int64(os.Getpagesize())}
	defer c.close()
	return c.run(largest, seal)
}

// A hostCheck is what CheckHost has made so far.
type hostCheck struct {
	page     int64
	object   *Memfd
	received *Memfd
	written  *Region
	seen     *Region
}

func (c *hostCheck) run(largest int64, seal bool) (steps []HostStep) {
	ok := func(does string, f func() error) bool {
		err := f()
		steps = append(steps, HostStep{does, err})
		return err == nil
	}
	all := ok(fmt.Sprintf("create, size (%d bytes) and seal a shared object, and re-open it through /proc", largest),
		func() (err error) {
			c.object, err = CreateMemfd("shuffled-check", largest)
			return err
		}) && ok("back a page of it with memory", func() error { return c.object.Commit(0, c.page) }) &&
		ok("write to it without a mapping", func() error { return c.object.WriteAt([]byte{1}, 0) }) &&
		ok("map it for writing", func() (err error) {
			c.written, err = c.object.Map(ReadWrite, c.page)
			return err
		}) &&
		ok("re-open it read-only and check its seals", c.receive) &&
		ok("map that and read what was written", c.see) &&
		ok("wake and wait on it", func() error { return checkFutex(c.seen.Word32(0), c.seen.Word32(0).Load()+1) }) &&
		(!seal || ok("seal it against further writers", c.object.SealFutureWrite)) &&
		(seal || ok("give the page back", func() error { return c.object.Punch(0, c.page) }))
	if all {
		ok("seal its seals", c.object.SealSeals)
	}
	return steps
}

func (c *hostCheck) receive() error {
	fd, err := c.object.ReopenReadOnly()
	if err != nil {
		return err
	}
	c.received, err = ReceiveMemfd(fd, c.object.Size(), "shuffled-check")
	return err
}

func (c *hostCheck) see() (err error) {
	if c.seen, err = c.received.Map(ReadOnly, c.page); err != nil {
		return err
	}
	c.written.Word32(4).Store(7)
	if got := c.seen.Word32(4).Load(); got != 7 {
		return os.NewSyscallError("mmap", fmt.Errorf("wrote 7, read %d through the other mapping", got))
	}
	return nil
}

func (c *hostCheck) close() {
	var errs []error
	for _, region := range []*Region{c.written, c.seen} {
		if region != nil {
			errs = append(errs, region.Close())
		}
	}
	for _, object := range []*Memfd{c.object, c.received} {
		if object != nil {
			errs = append(errs, object.Close())
		}
	}
	_ = errors.Join(errs...) // nothing depends on them
}
