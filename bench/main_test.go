package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain runs the test binary as the program when a test starts a role in a
// separate process, and as a parent of a process that sleeps.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-role" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == "-start-sleep" {
		sleep := exec.Command("sleep", "600")
		sleep.Stdout = os.Stdout
		fmt.Println("started", startWithParent(sleep))
		time.Sleep(time.Hour) // the test kills it
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("mcpgateway/bench.runStarter"))
}
