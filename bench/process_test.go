package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcpgateway/internal/polltest"
)

// The end of the context tells a process to end, so that it can end its workers.
func TestContextEndsProcessesGracefully(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	log := filepath.Join(t.TempDir(), "log")
	p, err := startProcess(exec.CommandContext(ctx, "sh", "-c", "trap 'echo ended; exit' TERM; echo ready; while :; do sleep 0.05; done"), log)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	said := func() string {
		text, _ := os.ReadFile(log)
		return string(text)
	}
	polltest.Until(t, "the process is ready", func() bool { return strings.Contains(said(), "ready") })
	cancel()
	<-p.done
	if !strings.Contains(said(), "ended") {
		t.Errorf("the process said %q, want its end", said())
	}
}
