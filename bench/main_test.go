package main

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the test binary stand in for the program when a test starts a
// role in a process of its own, and for the gateway.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "-role":
			os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		case "run":
			fmt.Fprintln(os.Stderr, standIn(os.Args[2:]))
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}
