package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"mcpgateway/internal/polltest"
)

// Ctrl-C ends a check as it ends programs that do not handle it, after the report of what is known.
func TestInterruptedCheck(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := dir + "/gateway.yaml"
	// The demo serves in a folder without a configuration.
	text := fmt.Sprintf("upstreams:\n  demo: {command: %q, args: [stdio], cwd: %q}\n  slow: {command: sleep, args: ['1000']}\n  gone: {command: /no/such/program}\n",
		dir+"/gateway", dir+"/empty")
	err = errors.Join(os.Symlink(self, dir+"/gateway"), os.Mkdir(dir+"/empty", 0o700), os.WriteFile(file, []byte(text), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		flag string
		want []string
	}{
		"text": {"--json=false", []string{
			`(?m)^demo +ready +legacy `, `(?m)^slow +unfinished +- `, `(?m)^gone +down +- `,
			`(?m)^error: gone: there is no file "/no/such/program": check command$`, `(?m)^error: the check was interrupted before it was done$`,
		}},
		"json": {"--json", []string{`"ok": false,`, `"name": "slow",\s+"state": "unfinished"`, `"name": "demo",\s+"state": "ready"`, `"what": "unfinished"`}},
	} {
		t.Run(name, func(t *testing.T) {
			terminal, inside := openTerminal(t)
			shown, out := &lines{}, &bytes.Buffer{}
			cmd := &exec.Cmd{
				Path: self, Args: []string{"gateway", "check", "-c", file, tc.flag, "--timeout", "10m"},
				Env: append(os.Environ(), "HOME="+dir, "TERM=xterm"), Stdin: inside, Stdout: out, Stderr: inside,
				SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0},
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			inside.Close()
			copied := make(chan struct{})
			go func() {
				defer close(copied)
				_, _ = io.Copy(shown, terminal) // EIO after the end of the program
			}()
			polltest.Until(t, "only one upstream has not started", func() bool { return strings.Contains(shown.String(), "waiting for slow (1 of 3)") })
			if _, err := terminal.WriteString("\x03"); err != nil {
				t.Fatal(err)
			}
			ended := cmd.Wait()
			<-copied
			status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !status.Signaled() || status.Signal() != syscall.SIGINT {
				t.Errorf("check ended with %v and printed\n%s", ended, shown)
			}
			for _, want := range tc.want {
				if !regexp.MustCompile(want).MatchString(out.String()) {
					t.Errorf("got\n%s\nwant %s", out, want)
				}
			}
		})
	}
}
