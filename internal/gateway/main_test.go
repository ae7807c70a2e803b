package gateway

import (
	"testing"

	"mcpgateway/internal/upstream/process"

	"go.uber.org/goleak"
)

// TestMain lets the test binary run as the supervisor of child processes.
func TestMain(m *testing.M) {
	process.SuperviseMain()
	goleak.VerifyTestMain(m)
}
