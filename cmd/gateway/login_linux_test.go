package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/polltest"
)

// On a terminal, login opens the page in the user's browser and prints its URL; with --no-browser it only prints it.
func TestLoginOpensTheBrowser(t *testing.T) {
	as := gatewaytest.NewAuthServer(t, nil)
	for flag, want := range map[string]string{
		"--port=0":     "Log in on the page that your browser opens, or open this URL:",
		"--no-browser": "Open this URL in a browser and log in:",
	} {
		dir := t.TempDir()
		file, opened := filepath.Join(dir, "gateway.yaml"), filepath.Join(dir, "opened")
		text := fmt.Sprintf("state_dir: %s\nupstreams: {tickets: {url: %q, auth: {kind: user}}}\n", filepath.Join(dir, "state"), newTickets(t, as)+"/mcp")
		browser := fmt.Sprintf("#!/bin/sh\necho \"$1\" >%[1]s.new\nmv %[1]s.new %[1]s\n", opened)
		for name, text := range map[string]string{"gateway.yaml": text, "xdg-open": browser} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		before := lookupEnv
		t.Cleanup(func() { lookupEnv = before })
		lookupEnv = func(name string) (string, bool) {
			if name == "DISPLAY" {
				return ":0", true
			}
			if strings.HasPrefix(name, "SSH_") {
				return "", false
			}
			return before(name)
		}
		terminal, inside := openTerminal(t)
		said, ended := &lines{}, make(chan int, 1)
		go func() { _, _ = io.Copy(said, terminal) }()
		go func() {
			ended <- run([]string{"login", "tickets", "-c", file, flag}, strings.NewReader(""), inside, io.Discard)
		}()
		url := ""
		polltest.Until(t, "the URL is there", func() bool {
			for line := range strings.Lines(said.String()) {
				if u := strings.TrimSpace(line); strings.HasPrefix(u, "http") {
					url = u
				}
			}
			return url != "" && strings.Contains(said.String(), "Waiting for the browser")
		})
		if !strings.Contains(said.String(), want) {
			t.Errorf("%s: printed %s", flag, said)
		}
		if flag != "--no-browser" {
			polltest.Until(t, "the browser is open", func() bool {
				got, err := os.ReadFile(opened)
				return err == nil && strings.TrimSpace(string(got)) == url
			})
		} else if _, err := os.Stat(opened); err == nil {
			t.Error("--no-browser opened a browser")
		}
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if status := <-ended; status != exitDone {
			t.Errorf("%s: status %d, %s", flag, status, said)
		}
		lookupEnv = before
		_ = inside.Close()
		_ = terminal.Close()
	}
}
