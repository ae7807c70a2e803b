package telemetry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

func logFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func read(t *testing.T, f *os.File) string {
	t.Helper()
	data, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestLoggerLevelsAndForms(t *testing.T) {
	tests := []struct {
		name, level, format, want string
	}{
		{"json", "info", "json", `"msg":"visible","upstream":"files"}`},
		{"auto is json where there is no terminal", "info", "auto", `"msg":"visible","upstream":"files"}`},
		{"console", "info", "console", "INFO  visible  upstream=files"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := logFile(t)
			log, flush, err := NewLogger(LogOptions{Level: tt.level, Format: tt.format, Out: f})
			if err != nil {
				t.Fatal(err)
			}
			log.Debug("hidden")
			log.Info("visible", zap.String("upstream", "files"))
			flush()
			if got := read(t, f); !strings.Contains(got, tt.want) || strings.Contains(got, "hidden") {
				t.Errorf("log is %q, want only a line with %q", got, tt.want)
			}
		})
	}
}

func TestWarningsAreWrittenAtOnce(t *testing.T) {
	f := logFile(t)
	log, flush, err := NewLogger(LogOptions{Level: "info", Format: "json", Out: f})
	if err != nil {
		t.Fatal(err)
	}
	defer flush()
	log.Info("before")
	log.Warn("now")
	if got := read(t, f); !strings.Contains(got, "before") || !strings.Contains(got, "now") {
		t.Errorf("after a warning the log is %q, want both lines", got)
	}
}

func TestDurationsHaveUnits(t *testing.T) {
	for format, want := range map[string]string{"json": `"timeout":"20s"`, "console": `timeout=20s`} {
		f := logFile(t)
		log, flush, err := NewLogger(LogOptions{Level: "info", Format: format, Out: f})
		if err != nil {
			t.Fatal(err)
		}
		log.Info("draining", zap.Duration("timeout", 20*time.Second))
		flush()
		if got := read(t, f); !strings.Contains(got, want) {
			t.Errorf("%s: log is %q, want %s in it", format, got, want)
		}
	}
}

func TestUnknownLevel(t *testing.T) {
	_, _, err := NewLogger(LogOptions{Level: "loud", Format: "json"})
	if want := `log level "loud": want debug, info, warn or error`; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func TestLogGoesThroughWhatStandsBetween(t *testing.T) {
	f := logFile(t)
	var between strings.Builder
	log, flush, err := NewLogger(LogOptions{Level: "info", Format: "auto", Out: f, Through: &between})
	if err != nil {
		t.Fatal(err)
	}
	log.Info("visible")
	flush()
	if got := between.String(); !strings.Contains(got, `"msg":"visible"`) || read(t, f) != "" {
		t.Errorf("through it went %q, past it %q", got, read(t, f))
	}
}
