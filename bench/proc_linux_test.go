package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// The test works until the process has taken more time. It hangs if the clock
// stands still and fails at once if the clock cannot be read.
func TestCPUTimeGrows(t *testing.T) {
	first := cpuTime(os.Getpid())
	if first == 0 {
		t.Fatal("cannot read the processor time")
	}
	for cpuTime(os.Getpid()) == first {
	}
	if got := cpuTime(1 << 22); got != 0 {
		t.Errorf("a process that does not exist has taken %s", got)
	}
}

// The figures of a process include its children: nginx works in them.
func TestChildrenCount(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 60 & echo started; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	pids := children(cmd.Process.Pid)
	if len(pids) != 1 {
		t.Fatalf("children %v, want one", pids)
	}
	defer syscall.Kill(pids[0], syscall.SIGKILL)
	if both, child := residentBytes(cmd.Process.Pid), residentBytes(pids[0]); child == 0 || both <= child {
		t.Errorf("the process with its child has %d bytes, the child %d", both, child)
	}
}

// A process that was started here ends when this program is killed.
func TestProcessesEndWithTheProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self, "-start-sleep")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(out)
	if line, err := reader.ReadString('\n'); err != nil {
		t.Fatalf("the program says %q: %v", line, err)
	}
	parent.Process.Kill()
	// The child has the pipe too, which therefore ends with the child.
	if _, err := reader.ReadString('\n'); err != io.EOF {
		t.Errorf("got %v, want the end of the output", err)
	}
	parent.Wait()
}

func TestRaiseFileLimit(t *testing.T) {
	if err := raiseFileLimit(64); err != nil {
		t.Errorf("fewer files than allowed: %v", err)
	}
	if err := raiseFileLimit(1 << 62); err == nil {
		t.Error("2⁶² open files are allowed")
	}
}
