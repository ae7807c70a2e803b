package gateway

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/polltest"
)

// answer asks for a reload, as a program does.
func (f *fromFile) answer(t *testing.T) inspect.ReloadReport {
	t.Helper()
	status, body := f.handleReload(t.Context())
	report, ok := body.(inspect.ReloadReport)
	if !ok || status != http.StatusOK {
		t.Fatalf("the answer is %d %+v", status, body)
	}
	return report
}

// A reload that a program asks for reads the files of the key tls again, although they seem unchanged, and
// says whether they can be used. It is no answer to that when an earlier change was noticed.
func TestReloadReadsTLSFiles(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	cert := filepath.Join(dir, "cert.pem")
	good, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	text := "tls: {cert: " + cert + ", key: " + dir + "/key.pem}\nupstreams: {a: {command: a, disabled: true}}\n"
	f := runFile(t, text)
	if r := f.answer(t); r.Status != inspect.ReloadUnchanged || r.Failing != nil || r.CertificateExpires == nil || r.CertificateRenewed != nil {
		t.Errorf("with good files: %+v", r)
	}
	f.write(t, text+"drain_timeout: 9s\n")
	polltest.Until(t, "the change of the file is noticed", func() bool { return f.lastChange.Load() != nil })
	if err := os.WriteFile(cert, good[:200], 0o600); err != nil {
		t.Fatal(err)
	}
	r := f.answer(t)
	if len(r.Failing) != 1 || !strings.HasPrefix(r.Failing[0], "new TLS files cannot be used; the certificate in use expires at ") || !strings.Contains(r.Failing[0], "failed to find any PEM data") {
		t.Errorf("with a part of the certificate: %+v", r)
	}
	if r.Noticed != nil {
		t.Errorf("the answer has an earlier change: %+v", r.Noticed)
	}
	if err := os.WriteFile(cert, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := f.answer(t); r.Failing != nil || r.Noticed != nil || r.CertificateRenewed == nil {
		t.Errorf("with good files again: %+v", r)
	}
	if r := f.answer(t); r.CertificateRenewed != nil {
		t.Errorf("the new files are told twice: %+v", r)
	}
}

// A reload that a program asks for reads the files of upstreams again, and names each upstream whose files cannot be used
// any more. Files that could never be used are a reason why the upstream is down.
func TestReloadReadsTLSFilesOfUpstreams(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	file := filepath.Join(dir, "ca.pem")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f := runFile(t, "upstreams:\n  a: {url: \"https://127.0.0.1:1/mcp\", ca: "+file+"}\n  never: {url: \"https://127.0.0.1:1/mcp\", ca: "+dir+"/none.pem}\n")
	if r := f.answer(t); r.Failing != nil {
		t.Errorf("with good files: %+v", r)
	}
	if err := os.WriteFile(file, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	const text = "upstream a: new TLS files cannot be used; the old ones stay in use: ca: "
	if r := f.answer(t); len(r.Failing) != 1 || r.Failing[0] != text+file+" has no certificates in PEM" {
		t.Errorf("with junk: %+v", r)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if r := f.answer(t); len(r.Failing) != 1 || r.Failing[0] != text+"open "+file+": no such file or directory" {
		t.Errorf("without the file: %+v", r)
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := f.answer(t); r.Failing != nil {
		t.Errorf("with good files again: %+v", r)
	}
}

// A reload tells of a change that the gateway has noticed by itself once, and only while the files are those of the change.
func TestReloadTellsNoticedChange(t *testing.T) {
	const text = "upstreams: {a: {command: a, disabled: true}}\n"
	f := runFile(t, text)
	notice := func(more string) {
		t.Helper()
		before := f.lastChange.Load()
		f.write(t, text+more)
		polltest.Until(t, "the change is noticed", func() bool { return f.lastChange.Load() != before })
	}
	notice("drain_timeout: 8s\n")
	if r := f.answer(t); r.Status != inspect.ReloadUnchanged || r.Noticed == nil || len(r.Noticed.Keys) != 1 || r.Noticed.Keys[0] != "drain_timeout" {
		t.Errorf("after a change: %+v", r)
	}
	if r := f.answer(t); r.Noticed != nil {
		t.Errorf("it is told again: %+v", r)
	}
	notice("drain_timeout: 7s\n")
	f.write(t, text+"drain_timeout: 7s # a comment\n")
	if r := f.answer(t); r.Status != inspect.ReloadUnchanged || r.Noticed != nil {
		t.Errorf("with other files: %+v", r)
	}
}

// A file that was refused and put back is not called the change that was noticed before.
func TestReloadAfterAFileWasPutBack(t *testing.T) {
	const text = "upstreams: {a: {command: a, disabled: true}}\n"
	f := runFile(t, text)
	write := func(text, status string) {
		t.Helper()
		before := f.lastReload.Load()
		f.write(t, text)
		polltest.Until(t, "the file is noticed", func() bool { r := f.lastReload.Load(); return r != before && r.Status == status })
	}
	write(text+"drain_timeout: 8s\n", inspect.ReloadDone)
	write("upstreamz: {}\n", inspect.ReloadRefused)
	write(text+"drain_timeout: 8s\n", inspect.ReloadUnchanged)
	if r := f.answer(t); r.Status != inspect.ReloadUnchanged || r.Noticed != nil {
		t.Errorf("a file that was put back: %+v", r)
	}
	write(text+"drain_timeout: 7s\n", inspect.ReloadDone)
	f.write(t, "upstreamz: {}\n")
	if status, body := f.handleReload(t.Context()); status != http.StatusUnprocessableEntity {
		t.Errorf("a file with an error: %d %+v", status, body)
	}
	f.write(t, text+"drain_timeout: 7s\n")
	if r := f.answer(t); r.Status != inspect.ReloadUnchanged || r.Noticed != nil {
		t.Errorf("a file that was put back after a refusal that was told: %+v", r)
	}
}
