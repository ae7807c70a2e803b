package soak

import (
	"os"
	"testing"

	supervise "mcpgateway/internal/upstream"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	supervise.SuperviseMain() // the gateway's children are held by another copy of the binary that it is in
	if revision := os.Getenv(childEnv); revision != "" {
		serveStdio(revision)
	}
	goleak.VerifyTestMain(m)
}
