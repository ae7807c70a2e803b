package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/config"
	"mcpgateway/internal/polltest"
)

// lines is a log in memory.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) Sync() error { return nil }

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func (l *lines) logger() *zap.Logger {
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), l, zap.DebugLevel)
	// The real log has a hook, which is a core around its core.
	return zap.New(core, zap.Hooks(func(zapcore.Entry) error { return nil }))
}

// What a child tells of its secrets reaches neither the log nor clients.
func TestSecretsThatChildrenRepeatAreMasked(t *testing.T) {
	t.Setenv("MASKED_TOKEN", "hunter-22")
	var log lines
	const script = `echo "stderr $KEY $OWN" >&2; echo "stdout $KEY"; read line
echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"refused '"$KEY"'"}}'; cat >/dev/null`
	const half = `read line
echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"half","version":"1"}}}'
read line; read line; echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"no list '"$KEY"'"}}'; cat >/dev/null`
	g, _ := startLogged(t, fmt.Sprintf(`
upstreams:
  leaky:
    command: sh
    args: ["-c", %q]
    era: legacy
    env: {KEY: "${MASKED_TOKEN}", OWN: "lite\"ral-7"}
  half:
    command: sh
    args: ["-c", %q]
    era: legacy
    env: {KEY: "${MASKED_TOKEN}"}
`, script, half), false, log.logger())
	<-g.settled
	_, answer := post(t, g, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`)
	if want := "refused [redacted]"; !strings.Contains(answer, want) {
		t.Errorf("a client gets %s, want %q in it", answer, want)
	}
	for _, want := range []string{`"stderr":"stderr [redacted] [redacted]"`, `no list [redacted]`} {
		polltest.Until(t, "the log has "+want, func() bool { return strings.Contains(log.text(), want) }) // it is read beside
	}
	for name, text := range map[string]string{"client": answer, "log": log.text()} {
		if strings.Contains(text, "hunter") || strings.Contains(text, "ral-7") {
			t.Errorf("the %s has a secret: %s", name, text)
		}
	}
}

// Every form of a field is masked, by the secrets of the present configuration and of those before.
func TestLogIsMasked(t *testing.T) {
	var log lines
	m := &masks{}
	logger := log.logger().WithOptions(zap.WrapCore(m.core))
	for _, secret := range []string{"gone-0001", "hunter-02", "hun ter&\"xyz"} {
		cfg, err := config.Parse("gateway.yaml", fmt.Appendf(nil, `{upstreams: {a: {command: a, env: {KEY: %q}}}}`, secret),
			func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		m.learn(cfg)
	}
	const first, second, third = "gone-0001", "hunter-02", "hun ter&\"xyz"
	logger.With(zap.String("with", second)).Info("message "+third, zap.String("string", third), zap.Error(errors.New("error "+second)),
		zap.NamedError("verbose", fmt.Errorf("%w", errors.New(third))), zap.ByteString("bytes", []byte(third)),
		zap.Strings("list", []string{"a", second}), zap.Any("modes", []config.AuthMode{config.AuthNone}), zap.Int("n", 7), zap.Error(nil),
		zap.String("quoted", fmt.Sprintf("%q", third)), zap.String("url", "http://h/?q=hun+ter%26%22xyz&r=hun%20ter&%22xyz"), zap.String("gone", first))
	got := log.text()
	for _, secret := range []string{first, second, "ter", "xyz"} {
		if strings.Contains(got, secret) {
			t.Errorf("the log has %q: %s", secret, got)
		}
	}
	for _, want := range []string{
		`"msg":"message [redacted]"`, `"with":"[redacted]"`, `"string":"[redacted]"`, `"error":"error [redacted]"`, `"verbose":"[redacted]"`,
		`"bytes":"[redacted]"`, `"list":["a","[redacted]"]`, `"modes":["none"]`, `"n":7`, `"gone":"[redacted]"`, `"url":"http://h/?q=[redacted]&r=[redacted]"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the log has not %s: %s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
	if logger.Core().Enabled(zap.DebugLevel) != true || zap.NewNop().WithOptions(zap.WrapCore(m.core)).Core().Enabled(zap.ErrorLevel) {
		t.Error("levels are not those of the core within")
	}
}

// Configurations that are refused do not take the place of the one that runs, and its
// secrets stay masked.
func TestSecretsStayMaskedOverRefusedReloads(t *testing.T) {
	var log lines
	kept := newScripted(t, "kept")
	of := func(secret, more string) string {
		return "upstreams: {a: " + kept.entry(", headers: {X-Key: "+secret+"}"+more) + "}"
	}
	g, _ := startLogged(t, of("running-01", ""), false, log.logger())
	if err := os.WriteFile(filepath.Join(g.cfg.StateDir, "pins.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"refused-01", "refused-02", "refused-03"} {
		if _, err := reloaded(t, g, of(secret, ", pin: true")); err == nil {
			t.Fatal("the reload was not refused")
		}
	}
	if got := g.masks.text("running-01 refused-01 refused-03"); got != "[redacted] [redacted] [redacted]" {
		t.Errorf("what is masked is %q", got)
	}
}

// However often secrets change, so many are known and no more.
func TestKnownSecretsAreBounded(t *testing.T) {
	m := &masks{}
	for i := range maxOldSecrets + 10 {
		cfg, err := config.Parse("gateway.yaml", fmt.Appendf(nil, `{upstreams: {a: {command: a, env: {KEY: "secret-%04d", SAME: for-all-times}}}}`, i),
			func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		m.learn(cfg)
	}
	if n := len(m.known); n != maxOldSecrets+2 {
		t.Errorf("%d are known", n)
	}
	if got := m.text("secret-0000 secret-0500 for-all-times"); got != "secret-0000 [redacted] [redacted]" {
		t.Errorf("what is masked is %q", got)
	}
}

// Most of what is logged holds no secret, and that costs no memory.
func TestMaskingNothingAllocatesNothing(t *testing.T) {
	m := newMask([]string{"topsecretvalue", "another-secret", "a \"quoted\" one"})
	const text = "tools/call of calc__add for anonymous, in 1ms"
	if n := testing.AllocsPerRun(100, func() {
		if m.text(text) != text {
			t.Fatal("something was masked")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got := m.text(`with topsecretvalue and a \"quoted\" one`); got != "with [redacted] and [redacted]" {
		t.Errorf("masked: %s", got)
	}
}
