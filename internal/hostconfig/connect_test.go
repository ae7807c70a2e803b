package hostconfig

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files with the results")

var (
	stdio = Stdio("/home/ada/bin/gateway", "/home/ada/mcp/gateway.yaml")
	byURL = Entry{URL: "http://127.0.0.1:8080/mcp"}
)

// Each file of a host keeps every byte but those of the entry. testdata/connect has the files, and beside each the
// file with the entry.
func TestConnect(t *testing.T) {
	files, err := filepath.Glob("testdata/connect/*.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".golden") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			name, _, _ := strings.Cut(filepath.Base(file), ".")
			h, ok := Find(name)
			if !ok {
				t.Fatalf("no host %s", name)
			}
			before := read(t, file)
			var golden bytes.Buffer
			entries := []Entry{stdio}
			if h.TakesURL() {
				entries = append(entries, byURL)
			}
			for _, e := range entries {
				golden.Write(checkConnect(t, h, before, e))
				golden.WriteString("\n--\n")
			}
			if *update {
				if err := os.WriteFile(file+".golden", golden.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := read(t, file+".golden"); !bytes.Equal(golden.Bytes(), want) {
				t.Errorf("got\n%s\nwant\n%s", golden.Bytes(), want)
			}
		})
	}
}

// checkConnect connects and disconnects, and returns the connected file.
func checkConnect(t *testing.T, h Host, before []byte, e Entry) []byte {
	t.Helper()
	after, err := h.Connect(before, "gateway", e)
	if err != nil {
		t.Fatal(err)
	}
	if missing := firstMissing(before, after); missing >= 0 && len(bytes.TrimSpace(before)) > 2 {
		t.Errorf("byte %d of the file is gone: %.40q\nin %s", missing, before[missing:], after)
	}
	if again, err := h.Connect(after, "gateway", e); err != nil || !bytes.Equal(again, after) {
		t.Errorf("the second time: %v\n%s", err, again)
	}
	if have, found, err := h.Entry(after, "gateway", nil); err != nil || !found || !have.equal(e) {
		t.Errorf("entry %v, %v, %v", have, found, err)
	}
	var conflict *Conflict
	if _, err := h.Connect(after, "gateway", Stdio("/other/gateway", "/x.yaml")); !errors.As(err, &conflict) || conflict.Other != e.String() {
		t.Errorf("another entry: %v", err)
	}
	other := Stdio("/other/gateway", "/x.yaml")
	if e.URL == "" && h.TakesURL() {
		other = byURL
	}
	if replaced, err := h.Replace(after, "gateway", other); err != nil {
		t.Error(err)
	} else if want, err := h.Connect(before, "gateway", other); err != nil || !bytes.Equal(replaced, want) {
		t.Errorf("replaced: %v\n%s\nwant\n%s", err, replaced, want)
	}
	if restored, err := h.Disconnect(after, "gateway", before); err != nil || !bytes.Equal(restored, before) {
		t.Errorf("disconnected with the file before: %v\n%s", err, restored)
	}
	without, err := h.Disconnect(after, "gateway", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, found, err := h.Entry(without, "gateway", nil); found || err != nil {
		t.Errorf("disconnected: %v, %v", found, err)
	}
	d, err := h.parse(before)
	if err != nil {
		t.Fatal(err)
	}
	if servers, _ := d.servers(); len(servers) > 0 && strings.TrimRight(string(without), "\r\n") != strings.TrimRight(string(before), "\r\n") {
		t.Errorf("disconnected without the file before:\n%s\nwant\n%s", without, before)
	}
	return after
}

// firstMissing returns the first byte of a that is not in b, in order; -1 if all are.
func firstMissing(a, b []byte) int {
	for i, c := range a {
		at := bytes.IndexByte(b, c)
		if at < 0 {
			return i
		}
		b = b[at+1:]
	}
	return -1
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Several entries go in any order, and the file is then what it was before the first. No file without them has one.
func TestSeveralEntries(t *testing.T) {
	files, err := filepath.Glob("testdata/connect/*.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".golden") {
			continue
		}
		name, _, _ := strings.Cut(filepath.Base(file), ".")
		h, _ := Find(name)
		before := read(t, file)
		second := stdio
		if h.TakesURL() {
			second = byURL
		}
		data := before
		for name, e := range map[string]Entry{"gateway": stdio, "a-b": second, "c": stdio} {
			if data, err = h.Connect(data, name, e); err != nil {
				t.Fatal(err)
			}
			if without, err := h.Without(data, "", before); err != nil || !bytes.Equal(without, before) {
				t.Errorf("%s without %s: %v\n%s", file, name, err, without)
			}
		}
		for name := range map[string]bool{"gateway": true, "a-b": true, "c": true} {
			if data, err = h.Disconnect(data, name, before); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(data, before) {
			t.Errorf("%s is\n%s\nwant\n%s", file, data, before)
		}
	}
}

// Without keeps the servers of others, whatever the host has changed since.
func TestWithout(t *testing.T) {
	const (
		command = `"a": {"command": "/b/gateway", "args": ["stdio", "-c", "/g.yaml"]}`
		local   = `"b": {"url": "http://127.0.0.1:3000/mcp"}`
	)
	h, _ := Find("cursor")
	for _, tc := range []struct{ data, name, before, want string }{
		{`{"mcpServers": {` + command + `, ` + local + `}}`, "", ``, `{"mcpServers": {` + local + `}}`},
		{`{"mcpServers": {` + local + `}}`, "", ``, `{"mcpServers": {` + local + `}}`},
		{`{"mcpServers": {` + local + `}}`, "b", ``, `{}`},
		{`{"x": 1, "mcpServers": {` + local + `}}`, "", `{"x": 2}`, `{"x": 1}`},
		{`{"x": 1, "mcpServers": {` + local + `, ` + command + `}}`, "", `{"mcpServers": {` + local + `}}`, `{"x": 1, "mcpServers": {` + local + `}}`},
		{`{"x": 1, "mcpServers": {` + command + `}}`, "", `{"mcpServers": {` + command + `}}`, `{"x": 1, "mcpServers": {}}`},
		{`{"mcpServers": {` + command + `}}`, "", `{"mcpServers": {` + command + `}}`, `{"mcpServers": {}}`},
	} {
		if got, err := h.Without([]byte(tc.data), tc.name, []byte(tc.before)); err != nil || string(got) != tc.want {
			t.Errorf("%s before %s:\ngot  %s, %v\nwant %s", tc.data, tc.before, got, err, tc.want)
		}
	}
}
