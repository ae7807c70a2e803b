package deploy

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// binaryEnv carries the path of the gateway's binary into the namespaces. The
// binary is built outside, where modules can be downloaded.
const binaryEnv = "MCPGATEWAY_DEPLOY_BINARY"

// soleUserEnv is set when an ordinary user has started the tests: their user
// namespace then has one user and one group, 0 and 0.
const soleUserEnv = "MCPGATEWAY_DEPLOY_SOLE_USER"

func TestMain(m *testing.M) {
	if os.Getenv(binaryEnv) == "" {
		os.Exit(outside())
	}
	if err := setUpNamespaces(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot run these tests:", err)
		os.Exit(1)
	}
	// Helm logs every symbolic link in the chart.
	slog.SetLogLoggerLevel(slog.LevelWarn)
	goleak.VerifyTestMain(m)
}

// outside builds the gateway, runs the tests in new namespaces and returns their
// exit status.
func outside() int {
	if err := checkInstalled(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot run these tests:", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "mcpgateway-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot run these tests:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "gateway")
	// The flags are those of the image's build, so that TestImage finds the result in
	// the build cache.
	build := exec.Command("go", "build", "-trimpath", "-o", binary, "./cmd/gateway")
	build.Dir, build.Stderr, build.Env = repository(), os.Stderr, append(os.Environ(), "CGO_ENABLED=0")
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "the gateway does not build:", err)
		return 1
	}
	inner := exec.Command("/proc/self/exe", os.Args[1:]...)
	inner.Stdin, inner.Stdout, inner.Stderr = os.Stdin, os.Stdout, os.Stderr
	inner.Env = append(os.Environ(), binaryEnv+"="+binary, "TMPDIR="+dir) // removed with all that tests and killed programs leave
	inner.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		// An ordinary user becomes root in a user namespace, if the kernel allows that.
		inner.Env = append(inner.Env, soleUserEnv+"=yes")
		mapTo(inner.SysProcAttr, 0, 0, os.Getuid(), os.Getgid())
	}
	err = inner.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot run these tests: cannot create namespaces:", err, "(run them as root with CAP_SYS_ADMIN, or allow unprivileged user namespaces)")
		return 1
	}
	return 0
}

// mapTo starts a process in a new user namespace with one user and one group.
// uid and gid inside correspond to outsideUID and outsideGID of the caller's
// namespace.
func mapTo(attr *syscall.SysProcAttr, uid, gid, outsideUID, outsideGID int) {
	attr.Cloneflags |= syscall.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: outsideUID, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: outsideGID, Size: 1}}
}

// checkInstalled fails if the npm packages are missing.
func checkInstalled() error {
	if _, err := os.Stat(filepath.Join(repository(), "test", "node_modules", ".installed")); err != nil {
		return errors.New("the npm packages in test/node_modules are missing: run test/install.sh")
	}
	return nil
}

// setUpNamespaces brings up loopback and mounts a private /run.
func setUpNamespaces() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
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

// repository returns the root folder of the gateway's module.
func repository() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err) // there is no working directory
	}
	return dir
}
