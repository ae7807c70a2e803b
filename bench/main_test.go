package main

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the test binary as the program when a test starts a role in a
// separate process, and as a fake gateway when a test starts the gateway.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "-role":
			os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		case "run":
			fmt.Fprintln(os.Stderr, runFakeGateway(os.Args[2:]))
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}
