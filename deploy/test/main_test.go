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

// binaryEnv carries the path of the gateway that was built from outside of the
// namespaces, where modules can be downloaded, to the inside.
const binaryEnv = "MCPGATEWAY_DEPLOY_BINARY"

// soleUserEnv says that the user namespace of the tests has one user and one group, 0 and 0: an
// ordinary user has started them.
const soleUserEnv = "MCPGATEWAY_DEPLOY_SOLE_USER"

func TestMain(m *testing.M) {
	if os.Getenv(binaryEnv) == "" {
		os.Exit(outside())
	}
	if err := arrive(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot run these tests:", err)
		os.Exit(1)
	}
	// Helm tells of every link in the chart that it follows.
	slog.SetLogLoggerLevel(slog.LevelWarn)
	goleak.VerifyTestMain(m)
}

// outside builds the gateway, runs the tests in namespaces of their own and
// returns their exit status.
func outside() int {
	if err := prepare(); err != nil {
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
	// Built as for the image, whose test then has little left to build.
	build := exec.Command("go", "build", "-trimpath", "-o", binary, "./cmd/gateway")
	build.Dir, build.Stderr, build.Env = repository(), os.Stderr, append(os.Environ(), "CGO_ENABLED=0")
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "the gateway does not build:", err)
		return 1
	}
	inner := exec.Command("/proc/self/exe", os.Args[1:]...)
	inner.Stdin, inner.Stdout, inner.Stderr = os.Stdin, os.Stdout, os.Stderr
	inner.Env = append(os.Environ(), binaryEnv+"="+binary)
	inner.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		// An ordinary user is root in a user namespace of their own, where the kernel allows that.
		inner.Env = append(inner.Env, soleUserEnv+"=yes")
		mapTo(inner.SysProcAttr, 0, 0, os.Getuid(), os.Getgid())
	}
	err = inner.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot run these tests: no namespaces:", err, "(run them as root with CAP_SYS_ADMIN, or allow unprivileged user namespaces)")
		return 1
	}
	return 0
}

// mapTo has a process start in a new user namespace, in which one user and one group exist: uid
// and gid there are the same as outsideUID and outsideGID in the namespace of the caller.
func mapTo(attr *syscall.SysProcAttr, uid, gid, outsideUID, outsideGID int) {
	attr.Cloneflags |= syscall.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: outsideUID, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: outsideGID, Size: 1}}
}

// prepare says early what is missing.
func prepare() error {
	if _, err := os.Stat(filepath.Join(repository(), "test", "node_modules", ".installed")); err != nil {
		return errors.New("the npm packages in test/node_modules are missing: run test/install.sh")
	}
	return nil
}

// arrive brings up loopback, and makes /run a folder that nobody else sees.
func arrive() error {
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

// repository is the folder of the gateway's module.
func repository() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err) // there is no working directory
	}
	return dir
}
