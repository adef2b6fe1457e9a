package ipc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/leaktest"
	"shuffled/ipc/controlpb"
)

func TestSpareDescriptorsAreForNotificationsThatBringSome(t *testing.T) {
	for name, row := range map[string]struct {
		request uint64
		files   int
		free    bool
	}{
		"notification that brings some": {0, 2, true},
		"notification that brings none": {0, 0, false},
		"answer":                        {1, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			leaktest.Check(t)
			a, b := newPair(t)
			b.KeepSpareDescriptors()
			defer b.spare.close()
			var msg controlpb.ServerMessage
			msg.RequestId = row.request
			msg.Body = &controlpb.ServerMessage_Ack{Ack: &controlpb.Ack{}}
			files := newFiles(t, 2)[:row.files]
			require.NoError(t, a.Send(&msg, files...))
			for _, before := range [][2]int{b.spare.fds, {}} { // and if they were missing
				if before == [2]int{} {
					b.spare.close()
				}
				require.NoError(t, b.raw.Control(func(fd uintptr) { b.spare.makeRoom(int(fd)) }))
				require.Equal(t, row.free, b.spare.fds == [2]int{})
				require.Equal(t, row.free, b.spare.fds[0] == 0 || b.spare.fds[1] == 0)
			}
			fds, err := b.Receive(&msg)
			require.NoError(t, err)
			defer fds.Close()
			require.NotContains(t, b.spare.fds, 0, "they are there again for the next one")
		})
	}
}
