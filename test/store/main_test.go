package store

import (
	"testing"

	"go.uber.org/goleak"

	"mcpgateway/test/internal/netns"
)

func TestMain(m *testing.M) {
	netns.Enter(func() ([]string, error) { return nil, nil })
	goleak.VerifyTestMain(m)
}
