package replicas

import (
	"testing"

	"mcpgateway/test/internal/rig"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	rig.Enter()
	goleak.VerifyTestMain(m)
}
