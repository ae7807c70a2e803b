package upstream

import (
	"os"
	"testing"

	"mcpgateway/internal/upstream/process"

	"go.uber.org/goleak"
)

// TestMain lets the test binary stand in for the two programs that tests of
// child processes start: the supervisor and the servers.
func TestMain(m *testing.M) {
	process.SuperviseMain()
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}
