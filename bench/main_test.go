package bench

import (
	"testing"

	"shuffled/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.Main(m)
}
