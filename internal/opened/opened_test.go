package opened

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNothingIsRememberedUntilItIsAskedFor(t *testing.T) {
	Mapping("before", "early")
	Descriptors(0)
	require.Empty(t, Mappings())
	target, err := Target(0)
	require.NoError(t, err)
	require.Empty(t, DescriptorStack(0, target))

	Trace()
	defer tracing.Store(false)
	Mapping("after", "late")
	require.Contains(t, Mappings()["after"], "late")
	Unmapped("after")
	require.Empty(t, Mappings())
}

func TestStackOfADescriptorIsThatOfWhatItRefersTo(t *testing.T) {
	Trace()
	defer tracing.Store(false)
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer f.Close()
	tell(int(f.Fd()))
	require.Contains(t, DescriptorStack(int(f.Fd()), os.DevNull), "TestStackOfADescriptorIsThatOfWhatItRefersTo")
	require.Empty(t, DescriptorStack(int(f.Fd()), "/another/file"), "the number was given to something else")
}

func tell(fd int) { Descriptors(fd) }

func BenchmarkMappingWhileNobodyTraces(b *testing.B) {
	b.ReportAllocs()
	key := new(int)
	for b.Loop() {
		Mapping(key, "region")
		Unmapped(key)
	}
}
