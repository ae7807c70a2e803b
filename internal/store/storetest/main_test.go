package storetest

import (
	"testing"

	"go.uber.org/goleak"

	"mcpgateway/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	Run(t, func(*testing.T) store.Store { return new(Memory) })
}
