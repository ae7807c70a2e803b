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

// inside marks the environment of a test binary that already runs in its namespace, with the namespace of the machine as its value.
const inside = "MCPGATEWAY_TEST_NETNS_OUTSIDE"

// Enter returns in a copy of the test binary that runs in a fresh network namespace, with loopback up. The binary that called it first stays
// outside, waits for that copy and exits with its status.
//
// prepare runs outside, before the namespace exists, because there alone the network can be reached (module downloads). The variables that it
// returns are added to the copy's environment. When it fails, or no namespace can be had, Enter says why on standard error and exits with status 1.
func Enter(prepare func() ([]string, error)) {
	if os.Getenv(inside) != "" {
		if err := arrive(); err != nil {
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

// reexec runs the test binary again, with its arguments, in a new network namespace and reports its exit status.
func reexec(env []string) (int, error) {
	here, err := namespace()
	if err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"="+here)
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		// A user may own a network namespace inside a user namespace of theirs, where they are root.
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
		return 0, fmt.Errorf("no network namespace: %w (run as root with CAP_SYS_ADMIN, or allow unprivileged user namespaces; "+
			"in a container: --cap-add SYS_ADMIN --security-opt seccomp=unconfined)", err)
	}
	return 0, nil
}

// arrive checks that this process is not in the machine's namespace and brings loopback up.
func arrive() error {
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

// Ports are handed out from below the range that the kernel takes for outgoing connections, so that nobody in the namespace comes in between
// the moment when a port is named to a server and the moment when the server listens on it. They begin above 10080, which clients that follow the
// Fetch standard refuse to connect to ("bad port").
const (
	firstPort = 10100
	lastPort  = 30000
)

var nextPort atomic.Int64

// Port returns a TCP port that nothing in the namespace has used. It panics outside of a namespace, and when 20,000 were used up.
func Port() int {
	if os.Getenv(inside) == "" {
		panic("netns.Port needs a network namespace of the tests' own: call netns.Enter in TestMain")
	}
	port := firstPort + int(nextPort.Add(1)) - 1
	if port > lastPort {
		panic("netns.Port: all ports used up")
	}
	return port
}

// Addr returns a loopback address with a port of its own.
func Addr() string { return strings.Join([]string{"127.0.0.1", fmt.Sprint(Port())}, ":") }
