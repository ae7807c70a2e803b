package telemetry

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

// logged returns what a logger with these options writes.
func logged(t *testing.T, o LogOptions, write func(*zap.Logger)) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o.Out, o.Level = f, "info"
	log, stop, err := NewLogger(o)
	if err != nil {
		t.Fatal(err)
	}
	write(log)
	stop()
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An entry of the console is one line without empty fields. Characters that a terminal obeys or hides are escaped as in JSON, so
// that no two texts look the same.
func TestConsoleLines(t *testing.T) {
	hostile := func(log *zap.Logger) {
		log.Warn("several\nlines\x1b[31m", zap.String("none", ""), zap.Strings("nobody", nil), zap.String("who", "a\r\nb\u202ec\u009b2J\U000e0041é　\x7f"),
			zap.Int("zero", 0), zap.Strings("all", []string{"e\u202eve"}), zap.Error(errors.New("bad\u200b")), zap.String("word", "a/é.c"), zap.String("filler", "\u3164"), zap.String("escape", `\u3164`))
		log.Info("alone", zap.String("none", ""))
		log.Error("worse")
	}
	got := logged(t, LogOptions{Format: "console"}, hostile)
	lines := strings.SplitAfter(got, "\n")
	if len(lines) != 4 || !strings.HasSuffix(lines[0], "  WARN  several\\nlines\\u001b[31m  "+
		`who="a\r\nb\u202ec\u009b2J\udb40\udc41é　\u007f" zero=0 all=["e\u202eve"] error="bad\u200b" word=a/é.c filler=\u3164 escape="\\u3164"`+"\n") || !strings.HasSuffix(lines[1], "  INFO  alone\n") || !strings.HasSuffix(lines[2], "  ERROR  worse\n") {
		t.Errorf("got %q", got)
	}
	colored := logged(t, LogOptions{Format: "console", Colour: true}, hostile)
	for i, level := range []string{"\x1b[33mWARN\x1b[0m", "\x1b[34mINFO\x1b[0m", "\x1b[31mERROR\x1b[0m"} {
		if line := strings.SplitAfter(colored, "\n")[i]; strings.Count(line, "\x1b[") != 2 || !strings.Contains(line, "  "+level+"  ") {
			t.Errorf("got %q, want %q in color alone", line, level)
		}
	}
}

// Lines for programs have the time in UTC with milliseconds.
func TestTimeOfLines(t *testing.T) {
	var line struct{ Time, TS string }
	if err := json.Unmarshal([]byte(logged(t, LogOptions{Format: "json"}, func(log *zap.Logger) { log.Info("x") })), &line); err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse("2006-01-02T15:04:05.000Z", line.Time)
	if err != nil || time.Since(at) > time.Hour || line.TS != "" {
		t.Errorf("time %q, %v", line.Time, err)
	}
}

// Held lines follow those of the logger itself, and later lines come at once.
func TestHold(t *testing.T) {
	got := logged(t, LogOptions{Format: "json"}, func(log *zap.Logger) {
		held, release := Hold(log)
		named := held.With(zap.String("by", "it"))
		named.Warn("second")
		held.Debug("never")
		log.Info("first")
		release()
		named.Info("third")
	})
	var order []string
	for line := range strings.Lines(got) {
		var l struct{ Msg, By string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		order = append(order, l.Msg+l.By)
	}
	if strings.Join(order, " ") != "first secondit thirdit" {
		t.Errorf("the lines are %q", order)
	}
}
