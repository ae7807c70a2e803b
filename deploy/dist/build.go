package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// target is one platform of a release, in the terms of Go.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "_" + t.arch }

func (t target) binary() string {
	if t.os == "windows" {
		return "gateway.exe"
	}
	return "gateway"
}

func parseTargets(list string) ([]target, error) {
	var out []target
	for pair := range strings.SplitSeq(list, ",") {
		goos, goarch, ok := strings.Cut(strings.TrimSpace(pair), "/")
		if !ok || goos == "" || goarch == "" {
			return nil, fmt.Errorf("-platforms: %q is not of the form OS/ARCH, such as linux/amd64", pair)
		}
		out = append(out, target{goos, goarch})
	}
	return out, nil
}

// readRepository sets the version, the commit and its date.
func (r *release) readRepository(ctx context.Context) error {
	git := func(args ...string) (string, error) {
		out, err := output(ctx, repository, nil, "git", args...)
		return strings.TrimSpace(out), err
	}
	var err error
	if r.commit, err = git("rev-parse", "HEAD"); err != nil {
		return err
	}
	date, err := git("show", "-s", "--format=%cI", "HEAD")
	if err != nil {
		return err
	}
	if r.date, err = time.Parse(time.RFC3339, date); err != nil {
		return err
	}
	r.date = r.date.UTC()
	if r.version != "" {
		return nil
	}
	if tag, err := git("describe", "--tags", "--exact-match", "--match", "v*"); err == nil {
		r.version = strings.TrimPrefix(tag, "v")
		return nil
	}
	r.version = fmt.Sprintf("0.0.0-dev.%s.%.12s", r.date.Format("20060102"), r.commit)
	return nil
}

// build compiles a static binary, which contains the version and neither paths of this machine nor the state of the working tree.
func (r *release) build(ctx context.Context, t target, binary string) error {
	flags := fmt.Sprintf("-s -w -X main.release=%s -X main.commit=%s -X main.date=%s", r.version, r.commit, r.date.Format(time.RFC3339))
	env := []string{"CGO_ENABLED=0", "GOOS=" + t.os, "GOARCH=" + t.arch, "GOFLAGS="}
	_, err := output(ctx, repository, env, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", binary, "./cmd/gateway")
	return err
}

// completions are the files that the verb completion writes, by shell.
var completions = map[string]string{"bash": "gateway.bash", "zsh": "_gateway", "fish": "gateway.fish", "powershell": "gateway.ps1"}

// makeDocs writes the completions and manual pages with a gateway that runs here.
func (r *release) makeDocs(ctx context.Context) error {
	r.docs = filepath.Join(r.work, "docs")
	here := filepath.Join(r.work, "here", "gateway")
	if err := r.build(ctx, target{runtime.GOOS, runtime.GOARCH}, here); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(r.docs, "completions"), 0o755); err != nil {
		return err
	}
	for shell, name := range completions {
		text, err := output(ctx, r.work, nil, here, "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.docs, "completions", name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	_, err := output(ctx, r.work, nil, here, "man", filepath.Join(r.docs, "man"))
	return err
}

// output runs a command and returns its standard output. The error contains its standard error.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return stdout.String(), nil
}
