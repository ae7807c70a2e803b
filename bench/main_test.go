package main

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the test binary as the program when a test starts a role in a
// separate process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-role" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}
