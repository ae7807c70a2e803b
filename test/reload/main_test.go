package reload

import (
	"context"
	"fmt"
	"os"
	"testing"

	"mcpgateway/test/internal/rig"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// role as the first argument makes this binary a server on stdio. The second argument is its name.
const role = "reload-server"

func TestMain(m *testing.M) {
	if len(os.Args) >= 3 && os.Args[1] == role {
		if err := newServer(os.Args[2], nil).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	rig.Enter()
	goleak.VerifyTestMain(m)
}
