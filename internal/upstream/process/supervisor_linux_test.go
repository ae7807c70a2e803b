package process

import (
	"testing"

	"mcpgateway/internal/polltest"
)

// A program ends when its supervisor is killed.
func TestSupervisorKilled(t *testing.T) {
	pids := t.TempDir() + "/pids"
	p := run(t, program("echo", pidFileVariable+"="+pids), noLog)
	pid := pidsIn(t, pids, 1)[0]
	p.cmd.Process.Kill()
	polltest.Until(t, "the program is dead", func() bool { return !alive(pid) })
	if err := p.Stop(); err == nil || err.Error() != "the server ended: signal: killed" {
		t.Errorf("Stop: %v", err)
	}
	p.Stdout.Close()
}
