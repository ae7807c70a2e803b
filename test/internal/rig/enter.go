package rig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"

	"mcpgateway/test/internal/netns"
)

// Packages of the binaries that the tests run.
const (
	gatewayPackage  = "mcpgateway/cmd/gateway"
	fixturePackage  = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"
	tasksPackage    = "mcpgateway/test/internal/tasksfixture"
	featuresPackage = "mcpgateway/test/internal/featuresfixture"
)

// builtEnv carries the paths of the built binaries into the network namespace.
const builtEnv = "MCPGATEWAY_TEST_BUILT"

// built is the path of a binary, or the error of its build.
type built struct {
	Path  string `json:"path"`
	Error string `json:"error,omitempty"`
}

// Enter checks the installed npm packages, builds the binaries and continues in a new network namespace. TestMain must call it first. A binary that
// does not build fails only the tests that need it.
func Enter() {
	netns.Enter(func() ([]string, error) {
		if err := checkInstalled(); err != nil {
			return nil, err
		}
		binaries, err := build(map[string]string{"gateway": gatewayPackage, "fixture": fixturePackage, "tasks": tasksPackage, "features": featuresPackage})
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(binaries)
		if err != nil {
			return nil, err
		}
		return []string{builtEnv + "=" + string(text)}, nil
	})
}

// root returns the root folder of the module.
var root = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if file == "" || file == os.DevNull {
		return "", errors.New("these tests must run inside the module mcpgateway")
	}
	return filepath.Dir(file), nil
})

// checkInstalled compares the mark of test/install.sh with the files that list the packages.
func checkInstalled() error {
	root, err := root()
	if err != nil {
		return err
	}
	sum := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc"} {
		text, err := os.ReadFile(filepath.Join(root, "test", name))
		if err != nil {
			return err
		}
		sum.Write(text)
	}
	mark, err := os.ReadFile(filepath.Join(root, "test", "node_modules", ".installed"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if strings.TrimSpace(string(mark)) != hex.EncodeToString(sum.Sum(nil)) {
		return errors.New("the npm packages in test/node_modules are missing or out of date: run test/install.sh")
	}
	return nil
}

// build builds every package into the module's cache folder; the go command does not rewrite an unchanged binary. The lock prevents other test
// binaries from writing the same file at the same time.
func build(packages map[string]string) (map[string]built, error) {
	root, err := root()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, ".cache", "test-bin")
	flags := []string{"build"}
	if raceEnabled() {
		// The gateway is built with the race detector if the tests are.
		dir += "-race"
		flags = append(flags, "-race")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := lockFile(lock); err != nil {
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	binaries := make(map[string]built)
	for name, pkg := range packages {
		path := filepath.Join(dir, name)
		cmd := exec.Command("go", append(flags, "-o", path, pkg)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			binaries[name] = built{Error: fmt.Sprintf("go build %s: %v\n%s", pkg, err, out)}
			continue
		}
		binaries[name] = built{Path: path}
	}
	return binaries, nil
}

func raceEnabled() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, setting := range info.Settings {
		if setting.Key == "-race" {
			return setting.Value == "true"
		}
	}
	return false
}
