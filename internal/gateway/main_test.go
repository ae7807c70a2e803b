package gateway

import (
	"testing"

	"go.uber.org/goleak"

	"mcpgateway/internal/upstream"
)

// TestMain lets the test binary stand in for the supervisor of child processes.
func TestMain(m *testing.M) {
	upstream.SuperviseMain()
	goleak.VerifyTestMain(m)
}
