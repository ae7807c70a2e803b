package traces

import (
	"os"
	"testing"

	"mcpgateway/test/internal/rig"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		runMetaServer()
		return
	}
	rig.Enter()
	goleak.VerifyTestMain(m)
}
