package shuffle_test

import (
	"testing"

	"shuffled/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
