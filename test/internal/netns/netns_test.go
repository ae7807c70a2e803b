package netns_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpgateway/test/internal/netns"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	netns.Enter(func() ([]string, error) { return []string{"MCPGATEWAY_TEST_PREPARED=yes"}, nil })
	goleak.VerifyTestMain(m)
}

func TestOnlyLoopbackExists(t *testing.T) {
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			t.Errorf("interface %s is up", i.Name)
		}
	}
	if conn, err := net.DialTimeout("tcp", "192.0.2.1:80", time.Second); err == nil {
		conn.Close()
		t.Error("an outside address is reachable")
	}
}

func TestLoopbackWorks(t *testing.T) {
	listener, err := net.Listen("tcp", netns.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestPreparedEnvironmentIsInherited(t *testing.T) {
	if got := os.Getenv("MCPGATEWAY_TEST_PREPARED"); got != "yes" {
		t.Errorf("variable set by prepare is %q, want %q", got, "yes")
	}
}

// leave marks a copy of this test binary that leaves a file behind.
const leave = "MCPGATEWAY_TEST_LEAVE"

func TestTemporaryFilesAreRemoved(t *testing.T) {
	if os.Getenv(leave) != "" {
		if err := os.MkdirAll(filepath.Join(os.TempDir(), "left", "behind"), 0o700); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir := t.TempDir()
	again := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MCPGATEWAY_TEST_") {
			again.Env = append(again.Env, v)
		}
	}
	again.Env = append(again.Env, leave+"=yes", "TMPDIR="+dir)
	if out, err := again.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestPortsDiffer(t *testing.T) {
	if a, b := netns.Port(), netns.Port(); a == b {
		t.Errorf("port %d was handed out twice", a)
	}
}
