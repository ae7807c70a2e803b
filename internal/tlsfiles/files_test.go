package tlsfiles

import (
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/gatewaytest"
)

// afterInterval lets the next Get look at the files, as it does after checkInterval.
func (f *Files) afterInterval() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked = time.Time{}
}

func TestCertificateFilesChange(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	core, logs := observer.New(zap.InfoLevel)
	c, err := Server(ServerOptions{Cert: dir + "/cert.pem", Key: dir + "/key.pem", ClientCA: dir + "/ca.pem"}, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	serial := func() string {
		c.afterInterval()
		conf, err := c.ServerConfig().GetConfigForClient(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(conf.Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.SerialNumber.String()
	}
	first := serial()
	if serial() != first || logs.Len() != 0 {
		t.Errorf("unchanged files were read again: %v", logs.All())
	}
	gatewaytest.NewAuthority(t).WriteFiles(dir)
	second := serial()
	if second == first {
		t.Error("the new certificate is not in use")
	}
	if err := os.WriteFile(dir+"/key.pem", []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if serial() != second || logs.FilterLevelExact(zap.WarnLevel).Len() != 1 {
		t.Errorf("after a bad file: %v", logs.All())
	}
	if err := c.Failure(); err == nil || !strings.HasPrefix(err.Error(), "tls.cert and tls.key: "+dir+"/cert.pem and "+dir+"/key.pem: tls: failed to find any PEM data in key input") {
		t.Errorf("the failure is %v", err)
	}
	serial()
	if n := logs.FilterLevelExact(zap.WarnLevel).Len(); n != 1 {
		t.Errorf("one bad file was reported %d times", n)
	}
	ca.WriteFiles(dir)
	if serial() == second {
		t.Error("the certificate after the bad file is not in use")
	}
	if err := c.Failure(); err != nil {
		t.Errorf("the good files: %v", err)
	}
	// The metric looks at the files, too.
	if err := os.WriteFile(dir+"/key.pem", []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.afterInterval()
	if at := FirstExpiry(c.Get); !at.After(time.Now()) || logs.FilterLevelExact(zap.WarnLevel).Len() != 2 {
		t.Errorf("the certificate in use expires %s; the log has %v", at, logs.All())
	}
}

func TestFaultyCertificateFiles(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	if err := os.WriteFile(dir+"/empty.pem", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, files := range map[string]ServerOptions{
		"tls.cert and tls.key": {Cert: dir + "/none.pem", Key: dir + "/key.pem"},
		"tls.client_ca":        {Cert: dir + "/cert.pem", Key: dir + "/key.pem", ClientCA: dir + "/none.pem"},
		"no certificates":      {Cert: dir + "/cert.pem", Key: dir + "/key.pem", ClientCA: dir + "/empty.pem"},
	} {
		if _, err := Server(files, zap.NewNop()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", files, err)
		}
	}
}

// Files of TLS toward a server are read again when they have changed.
func TestClientFilesChange(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	core, logs := observer.New(zap.InfoLevel)
	f := Client(ClientOptions{Cert: dir + "/client.pem", Key: dir + "/client-key.pem"}, zap.New(core))
	leaf := func() string {
		f.afterInterval()
		c, err := f.Get()
		if err != nil {
			t.Fatal(err)
		}
		return string(c.Certificates[0].Certificate[0])
	}
	first := leaf()
	if leaf() != first || logs.Len() != 0 {
		t.Errorf("unchanged files were read again: %v", logs.All())
	}
	gatewaytest.NewAuthority(t).WriteFiles(dir)
	if leaf() == first || logs.FilterMessage("TLS files have changed and are in use").Len() != 1 {
		t.Errorf("the new certificate is not in use: %v", logs.All())
	}
}

// Reread reads files whose time and size are as before, too, and logs each result once.
func TestReread(t *testing.T) {
	dir := t.TempDir()
	gatewaytest.NewAuthority(t).WriteFiles(dir)
	core, logs := observer.New(zap.InfoLevel)
	f, err := Server(ServerOptions{Cert: dir + "/cert.pem", Key: dir + "/key.pem"}, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	name := dir + "/key.pem"
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Reread(); err != nil || logs.Len() != 0 {
		t.Errorf("good files: %v, %v", err, logs.All())
	}
	write(make([]byte, len(good)))
	for range 2 {
		if err := f.Reread(); err == nil || f.Failure() == nil || logs.FilterLevelExact(zap.WarnLevel).Len() != 1 {
			t.Errorf("a bad key: %v, %v", err, logs.All())
		}
	}
	write(good)
	for range 2 {
		if err := f.Reread(); err != nil || logs.FilterMessage("TLS files have changed and are in use").Len() != 1 {
			t.Errorf("the good key again: %v, %v", err, logs.All())
		}
	}
}
