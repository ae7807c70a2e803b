package instance

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A running gateway is found by its state folder, also if the path is too long for a socket, and not after it ended.
func TestListenAndFind(t *testing.T) {
	for name, dir := range map[string]string{"short": short(t), "long": filepath.Join(t.TempDir(), strings.Repeat("long/", 30))} {
		t.Run(name, func(t *testing.T) {
			l, err := Listen(dir)
			if err != nil {
				t.Fatal(err)
			}
			srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") })}
			served := make(chan error)
			go func() { served <- srv.Serve(l) }()
			info, err := os.Stat(filepath.Join(dir, "run"))
			if err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("folder: %v, %v", info, err)
			}
			found := Find(dir)
			if len(found) != 1 {
				t.Fatalf("found %v", found)
			}
			transport := found[0].Transport()
			resp, err := (&http.Client{Transport: transport}).Get("http://gateway/")
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if string(body) != "here" {
				t.Errorf("got %q", body)
			}
			_ = srv.Close()
			<-served
			left, err := os.ReadDir(filepath.Join(dir, "run"))
			if err != nil || len(left) > 0 || len(Find(dir)) > 0 {
				t.Errorf("after the end: %v, %v", left, err)
			}
		})
	}
}

// The socket of a killed gateway is removed; other files stay.
func TestFindRemovesDeadSockets(t *testing.T) {
	dir := short(t)
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	run := filepath.Join(dir, "run")
	if err := os.WriteFile(filepath.Join(run, "note.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(run, "gone.path"), []byte(filepath.Join(dir, "x", "s")), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := Find(dir); len(found) > 0 {
		t.Errorf("found %v", found)
	}
	left, err := os.ReadDir(run)
	if err != nil || len(left) != 1 || left[0].Name() != "note.txt" {
		t.Errorf("left %v, %v", left, err)
	}
	if len(Find("")) > 0 || len(Find(filepath.Join(dir, "none"))) > 0 {
		t.Error("found gateways without a folder")
	}
	if _, err := Listen(""); err == nil {
		t.Error("listens without a folder")
	}
}

// A folder that others can use is made private first.
func TestFolderIsPrivate(t *testing.T) {
	dir := short(t)
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if info, err := os.Stat(filepath.Join(dir, "run")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

// short is a folder whose path is short enough for sockets.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "i")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
