package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"
)

// startTimeout bounds the time in which a server starts and lists its tools.
const startTimeout = 45 * time.Second

//go:embed servers.json
var serversJSON []byte

// server is an npm package that is an MCP server. In arguments, $TMP is an empty folder.
type server struct {
	Name    string            `json:"name"` // of the upstream
	Package string            `json:"package"`
	Version string            `json:"version"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// listed is a server with what it listed.
type listed struct {
	Name    string            `json:"name"`
	Package string            `json:"package"`
	Tools   []json.RawMessage `json:"tools"`
}

// gatherers is how many servers are installed at once.
const gatherers = 3

// gather writes the tools of all servers to definitions.json in the folder dir. A server that
// was listed before is not installed again.
func gather(ctx context.Context, dir string, withManifest bool) error {
	var servers []server
	if err := json.Unmarshal(serversJSON, &servers); err != nil {
		return fmt.Errorf("servers.json: %w", err)
	}
	found := make([]listed, len(servers))
	var group errgroup.Group
	group.SetLimit(gatherers)
	for i, s := range servers {
		group.Go(func() error {
			tools, err := s.tools(ctx, dir)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				fmt.Printf("%-14s %v\n", s.Name, err)
				return nil // the others are still worth measuring
			}
			fmt.Printf("%-14s %d tools\n", s.Name, len(tools))
			found[i] = listed{s.Name, s.Package + "@" + s.Version, tools}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(l listed) bool { return l.Tools == nil })
	total := 0
	for _, l := range found {
		total += len(l.Tools)
	}
	fmt.Printf("%d tools of %d servers\n", total, len(found))
	if err := writeJSON(filepath.Join(dir, "definitions.json"), found); err != nil || !withManifest {
		return err
	}
	for i := range found {
		for j, t := range found[i].Tools {
			name, err := json.Marshal(nameOf(t))
			if err != nil {
				return err
			}
			found[i].Tools[j] = name
		}
	}
	return writeJSON(filepath.Join("bench", "search", "manifest.json"), found)
}

func nameOf(definition json.RawMessage) string {
	var t struct{ Name string }
	_ = json.Unmarshal(definition, &t) // the client has checked it
	return t.Name
}

// writeJSON writes one line for each server.
func writeJSON(file string, all []listed) error {
	var b strings.Builder
	b.WriteString("[\n")
	for i, l := range all {
		line, err := json.Marshal(l)
		if err != nil {
			return err
		}
		b.Write(line)
		if i+1 < len(all) {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]\n")
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// tools returns the definitions that a server lists: those that were kept, or those of the
// server, installed for this and removed again.
func (s server) tools(ctx context.Context, dir string) ([]json.RawMessage, error) {
	kept := filepath.Join(dir, s.Name+".json")
	var tools []json.RawMessage
	if b, err := os.ReadFile(kept); err == nil {
		return tools, json.Unmarshal(b, &tools)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(dir, s.Name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := s.install(ctx, folder); err != nil {
		return nil, err
	}
	if tools, err = s.list(ctx, folder); err != nil {
		return nil, err
	}
	b, err := json.Marshal(tools)
	if err != nil {
		return nil, err
	}
	return tools, os.WriteFile(kept, b, 0o644)
}

// install installs the package in a folder, without running scripts.
func (s server) install(ctx context.Context, folder string) error {
	cmd := exec.CommandContext(ctx, "npm", "install", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", s.Package+"@"+s.Version)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot be installed: %w: %s", err, out[max(0, len(out)-300):])
	}
	return nil
}

// list starts the server and returns the definitions that it lists.
func (s server) list(ctx context.Context, folder string) ([]json.RawMessage, error) {
	bin, err := binOf(filepath.Join(folder, "node_modules", filepath.FromSlash(s.Package)))
	if err != nil {
		return nil, err
	}
	home := filepath.Join(folder, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()

	cmd := exec.CommandContext(ctx, "node", bin)
	for _, a := range s.Args {
		cmd.Args = append(cmd.Args, strings.ReplaceAll(a, "$TMP", home))
	}
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "NO_COLOR=1", "CI=true"}
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	stderr, err := os.Create(filepath.Join(folder, "stderr"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = stderr.Close() }()
	cmd.Stderr = stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "bench-search", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Second}, nil)
	if err != nil {
		said, _ := os.ReadFile(stderr.Name()) // a hint beside the error
		return nil, fmt.Errorf("does not start: %w: %s", err, said[max(0, len(said)-300):])
	}
	defer func() { _ = session.Close() }()
	var tools []json.RawMessage
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("does not list: %w", err)
		}
		raw, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		tools = append(tools, raw)
	}
	if len(tools) == 0 {
		return nil, errors.New("lists no tools")
	}
	return tools, nil
}

// binOf returns the program of a package: the one with the package's name if there are several.
func binOf(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return "", err
	}
	var p struct {
		Name string          `json:"name"`
		Bin  json.RawMessage `json:"bin"`
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return "", err
	}
	var one string
	if json.Unmarshal(p.Bin, &one) == nil {
		return filepath.Join(dir, one), nil
	}
	var many map[string]string
	if err := json.Unmarshal(p.Bin, &many); err != nil || len(many) == 0 {
		return "", fmt.Errorf("%s has no program", p.Name)
	}
	if f, ok := many[path.Base(p.Name)]; ok {
		return filepath.Join(dir, f), nil
	}
	names := make([]string, 0, len(many))
	for name := range many {
		names = append(names, name)
	}
	return filepath.Join(dir, many[slices.Min(names)]), nil
}
