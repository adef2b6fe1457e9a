package absent

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

type failure struct{}

func (*failure) Error() string { return "" }

func TestNilInAnInterfaceIsAbsent(t *testing.T) {
	for _, v := range []any{nil, (*failure)(nil), error((*failure)(nil)), (func())(nil)} {
		require.True(t, Is(v), "%T", v)
	}
	for _, v := range []any{errors.New(""), &failure{}, func() {}, 0, "", struct{}{}, []int(nil), map[string]int(nil),
		context.Background()} {
		require.False(t, Is(v), "%T", v)
	}
}
