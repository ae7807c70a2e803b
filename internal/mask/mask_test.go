package mask

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Every form of a field is masked, with the secrets of this configuration and of earlier
// ones.
func TestLogIsMasked(t *testing.T) {
	const first, second, third = "gone-0001", "hunter-02", "hun ter&\"xyz"
	s := &Secrets{}
	for _, secret := range []string{first, second, third} {
		s.Learn([]string{secret})
	}
	var log bytes.Buffer
	inner := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&log), zap.DebugLevel)
	// The log of the program has a hook, which is a core around its core.
	logger := zap.New(inner, zap.Hooks(func(zapcore.Entry) error { return nil }), zap.WrapCore(s.WrapCore))
	logger.With(zap.String("with", second)).Info("message "+third, zap.String("string", third), zap.Error(errors.New("error "+second)),
		zap.NamedError("verbose", fmt.Errorf("%w", errors.New(third))), zap.ByteString("bytes", []byte(third)),
		zap.Strings("list", []string{"a", second}), zap.Any("modes", []zapcore.Level{zap.InfoLevel}), zap.Int("n", 7), zap.Error(nil),
		zap.String("quoted", fmt.Sprintf("%q", third)), zap.String("url", "http://h/?q=hun+ter%26%22xyz&r=hun%20ter&%22xyz"), zap.String("gone", first))
	got := log.String()
	for _, secret := range []string{first, second, "ter", "xyz"} {
		if strings.Contains(got, secret) {
			t.Errorf("the log contains %q: %s", secret, got)
		}
	}
	for _, want := range []string{
		`"msg":"message [redacted]"`, `"with":"[redacted]"`, `"string":"[redacted]"`, `"error":"error [redacted]"`, `"verbose":"[redacted]"`,
		`"bytes":"[redacted]"`, `"list":["a","[redacted]"]`, `"modes":["info"]`, `"n":7`, `"gone":"[redacted]"`, `"url":"http://h/?q=[redacted]&r=[redacted]"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the log lacks %s: %s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
	if !logger.Core().Enabled(zap.DebugLevel) || zap.NewNop().WithOptions(zap.WrapCore(s.WrapCore)).Core().Enabled(zap.ErrorLevel) {
		t.Error("the levels are not those of the wrapped core")
	}
}

func TestKnownSecretsAreBounded(t *testing.T) {
	s := &Secrets{}
	for i := range maxOldSecrets + 10 {
		s.Learn([]string{fmt.Sprintf("secret-%04d", i), "for-all-times"})
	}
	if n := len(s.known); n != maxOldSecrets+2 {
		t.Errorf("%d secrets are known", n)
	}
	if got := s.Mask("secret-0000 secret-0500 for-all-times"); got != "secret-0000 [redacted] [redacted]" {
		t.Errorf("masked text: %q", got)
	}
}

// Most logged texts contain no secret. Masking those allocates no memory.
func TestMaskingNothingAllocatesNothing(t *testing.T) {
	s := &Secrets{}
	s.Learn([]string{"topsecretvalue", "another-secret", "a \"quoted\" one"})
	const text = "tools/call of calc__add for anonymous, in 1ms"
	if n := testing.AllocsPerRun(100, func() {
		if s.Mask(text) != text {
			t.Fatal("something was masked")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got := s.Mask(`with topsecretvalue and a \"quoted\" one`); got != "with [redacted] and [redacted]" {
		t.Errorf("masked: %s", got)
	}
}
