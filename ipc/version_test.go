package ipc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

func TestNegotiatePicksTheHighestCommonVersion(t *testing.T) {
	for _, test := range []struct {
		name                                       string
		clientMin, clientMax, serverMin, serverMax uint32
		want                                       uint32
	}{
		{"equal", 1, 1, 1, 1, 1},
		{"this build with itself", MinProtocolVersion, MaxProtocolVersion, MinProtocolVersion, MaxProtocolVersion,
			MaxProtocolVersion},
		{"newer daemon", 1, 2, 1, 9, 2},
		{"newer client", 1, 9, 1, 2, 2},
		{"touching", 1, 3, 3, 5, 3},
		{"one inside the other", 1, 9, 4, 6, 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Negotiate(test.clientMin, test.clientMax, test.serverMin, test.serverMax)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestNegotiateNamesBothRangesAndTheSideToUpgrade(t *testing.T) {
	_, err := Negotiate(1, 2, 3, 5)
	require.ErrorIs(t, err, shuffle.ErrVersionMismatch)
	require.EqualError(t, err,
		"protocol version mismatch: the client speaks versions 1 to 2, the daemon versions 3 to 5: upgrade the client")
	_, err = Negotiate(4, 4, 1, 3)
	require.ErrorIs(t, err, shuffle.ErrVersionMismatch)
	require.EqualError(t, err,
		"protocol version mismatch: the client speaks version 4, the daemon versions 1 to 3: upgrade the daemon")
}

func TestNegotiateRefusesARangeWithoutVersions(t *testing.T) {
	_, err := Negotiate(0, 1, 1, 1)
	require.ErrorIs(t, err, shuffle.ErrProtocol)
	require.ErrorContains(t, err, "client: got min_version 0 and max_version 1")
	_, err = Negotiate(1, 1, 3, 2)
	require.ErrorIs(t, err, shuffle.ErrProtocol)
	require.ErrorContains(t, err, "daemon: got min_version 3 and max_version 2")
}

func TestCommonFeaturesAreThoseThatBothSidesKnow(t *testing.T) {
	require.Equal(t, Features(0b0100), CommonFeatures(0b0110, 0b1100))
	require.Equal(t, SupportedFeatures, CommonFeatures(^Features(0), SupportedFeatures))
}
