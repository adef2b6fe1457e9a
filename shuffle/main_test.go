package shuffle_test

import (
	"testing"

	"shuffled/internal/linktest"
)

func TestMain(m *testing.M) { linktest.Main(m) }
