package faults

import (
	"fmt"
	"os"
	"testing"

	"mcpgateway/test/internal/rig"

	"go.uber.org/goleak"
)

// role as the first argument makes this binary a server. The other arguments are role, mode, a folder, and an address or "stdio".
const role = "faulty-server"

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == role {
		if err := serve(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	rig.Enter()
	goleak.VerifyTestMain(m)
}
