package gateway

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

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
	// The production log wraps its core with a hook.
	return zap.New(core, zap.Hooks(func(zapcore.Entry) error { return nil }))
}

// Secrets that a child prints reach neither the log nor the audit, and clients only as what it answers to their calls.
func TestSecretsThatChildrenRepeatAreMasked(t *testing.T) {
	t.Setenv("MASKED_TOKEN", "hunter-22")
	var log lines
	const script = `echo "stderr $KEY $OWN" >&2; echo "stdout $KEY"; read line
echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"refused '"$KEY"'"}}'; cat >/dev/null`
	const half = `read line
echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"half","version":"1"}}}'
read line; read line; echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"no list '"$KEY"'"}}'; cat >/dev/null`
	const fails = `read line
echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fails","version":"1"}}}'
read line; read line; echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}}'
read line; echo '{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"%s'"$KEY"'"}}'; cat >/dev/null`
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	g, _ := startLogged(t, fmt.Sprintf(`
telemetry: {audit: {file: %q}}
upstreams:
  fails:
    command: sh
    args: ["-c", %q]
    era: legacy
    env: {KEY: "${MASKED_TOKEN}"}
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
`, file, fmt.Sprintf(fails, strings.Repeat(".", 250)), script, half), false, log.logger())
	<-g.started
	_, answer := post(t, g, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`)
	if want := "refused [redacted]"; !strings.Contains(answer, want) {
		t.Errorf("a client gets %s, want %q in it", answer, want)
	}
	for _, want := range []string{`"stderr":"stderr [redacted] [redacted]"`, `no list [redacted]`} {
		polltest.Until(t, "the log has "+want, func() bool { return strings.Contains(log.text(), want) }) // another goroutine reads the output of the child
	}
	if _, failed := post(t, g, "", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fails__x"}}`); !strings.Contains(failed, "...hunter-22") {
		t.Errorf("the answer of a server is changed: %s", failed)
	}
	var audit string
	polltest.Until(t, "the audit has the end of the call", func() bool {
		data, err := os.ReadFile(file)
		audit = string(data)
		return err == nil && strings.Contains(audit, `"reason":"the server answered with error -1: ....`) && strings.Contains(log.text(), `"reason":"the server answered with error -1: ....`)
	})
	for name, text := range map[string]string{"client": answer, "log": log.text(), "audit": audit} {
		if strings.Contains(text, "hunter") || strings.Contains(text, "ral-7") {
			t.Errorf("the %s has a secret: %s", name, text)
		}
	}
}

// Refused configurations do not replace the one in force, and its secrets stay masked.
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
	if got := g.secrets.Mask("running-01 refused-01 refused-03"); got != "[redacted] [redacted] [redacted]" {
		t.Errorf("masked secrets are %q", got)
	}
}
