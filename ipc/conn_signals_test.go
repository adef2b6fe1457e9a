package ipc

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The runtime interrupts its threads by signals.
func TestSignalIsNoPacket(t *testing.T) {
	_, conn := newPair(t)
	thread := make(chan int)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		thread <- unix.Gettid()
		for range 2_000 {
			require.NoError(t, conn.socket.SetReadDeadline(time.Now().Add(10*time.Microsecond)))
			if err := conn.WaitForPacket(); err == nil {
				t.Error("nothing was sent")
				return
			}
		}
	}()
	for tid := <-thread; ; {
		select {
		case <-done:
			return
		default:
			_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG)
		}
	}
}
