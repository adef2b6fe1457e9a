package shuffle_test

import (
	"testing"

	"shuffled/internal/test/linktest"
)

func TestMain(m *testing.M) { linktest.Main(m) }
