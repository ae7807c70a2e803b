package soak

import (
	"os"
	"testing"

	"mcpgateway/internal/upstream/process"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	process.SuperviseMain() // the gateway in this binary starts it again as a supervisor
	if revision := os.Getenv(childEnv); revision != "" {
		serveStdio(revision, os.Getenv(dirEnv))
	}
	goleak.VerifyTestMain(m)
}
