package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// inside marks the environment of a test binary that already runs in its namespace. Its value is the namespace of the machine.
const inside = "MCPGATEWAY_TEST_NETNS_OUTSIDE"

// Enter runs a copy of the test binary in a new network namespace with loopback up, and returns in that copy only. The first binary stays
// outside, waits for the copy and exits with its status.
//
// prepare runs outside, before the namespace exists, because only there the network is reachable (module downloads). The copy's environment gets
// the variables that prepare returns, and a TMPDIR of its own, which is removed when the copy has ended: tests and the programs that they kill
// leave nothing behind. If prepare or the namespace fails, Enter prints the reason to standard error and exits with status 1.
func Enter(prepare func() ([]string, error)) {
	if os.Getenv(inside) != "" {
		if err := setUp(); err != nil {
			fail(err)
		}
		return
	}
	env, err := prepare()
	if err != nil {
		fail(err)
	}
	status, err := reexec(env)
	if err != nil {
		fail(err)
	}
	os.Exit(status)
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "cannot run these tests: %v\n", err)
	os.Exit(1)
}

// reexec runs the test binary again, with its arguments, in a new network namespace and returns its exit status.
func reexec(env []string) (int, error) {
	here, err := namespace()
	if err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	temp, err := os.MkdirTemp("", "t") // paths of sockets begin with it, and must be short
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(temp)
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"="+here, "TMPDIR="+temp)
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		// An ordinary user may own a network namespace inside a new user namespace.
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot create a network namespace: %w (run as root with CAP_SYS_ADMIN, or allow unprivileged user namespaces; "+
			"in a container: --cap-add SYS_ADMIN --security-opt seccomp=unconfined)", err)
	}
	return 0, nil
}

// setUp checks that this process is not in the machine's namespace and brings loopback up.
func setUp() error {
	here, err := namespace()
	if err != nil {
		return err
	}
	if here == os.Getenv(inside) {
		return fmt.Errorf("%s is set, but this process is still in the machine's network namespace %s: unset it", inside, here)
	}
	return loopbackUp()
}

func namespace() (string, error) { return os.Readlink("/proc/self/ns/net") }

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket to set loopback up: %w", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("set loopback up: %w", err)
	}
	return nil
}

// Ports are below the kernel's range for outgoing connections, so that no connection takes a port before the server listens on it. They are above
// 10080, which clients that follow the Fetch standard refuse ("bad port").
const (
	firstPort = 10100
	lastPort  = 30000
)

var nextPort atomic.Int64

// Port returns a TCP port that was not used in the namespace before. It panics outside of a namespace, and after 20,000 ports.
func Port() int {
	if os.Getenv(inside) == "" {
		panic("netns.Port needs the network namespace of the tests: call netns.Enter in TestMain")
	}
	port := firstPort + int(nextPort.Add(1)) - 1
	if port > lastPort {
		panic("netns.Port: all ports are used")
	}
	return port
}

// Addr returns a loopback address with an unused port.
func Addr() string { return strings.Join([]string{"127.0.0.1", fmt.Sprint(Port())}, ":") }
