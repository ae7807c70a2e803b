package upstream

import (
	"testing"

	"mcpgateway/internal/polltest"
)

// A supervisor that is killed takes its server along.
func TestSupervisorKilled(t *testing.T) {
	pids := t.TempDir() + "/pids"
	c, err := startChild(t.Context(), Options{Stdio: stdio("plain", pidFileVariable+"="+pids)}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	pid := pidsIn(t, pids, 1)[0]
	c.cmd.Process.Kill()
	polltest.Until(t, "the server is dead", func() bool { return !alive(pid) })
	if err := c.stop(); err == nil || err.Error() != "the server ended: signal: killed" {
		t.Errorf("stop: %v", err)
	}
	c.stdout.Close()
}
