package process

import (
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// A server that ends after each start fills the log once.
func TestRepeatedFirstLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.DebugLevel)
		first := new(FirstLines)
		start := func(text io.Reader) (shown []string) {
			newStderrReader(Log{To: zap.New(core), Mask: noLog.Mask, First: first}).read(text)
			for _, e := range logs.TakeAll() {
				if e.Level == zapcore.InfoLevel {
					shown = append(shown, e.ContextMap()["stderr"].(string))
				} else if e.Level != zapcore.DebugLevel {
					t.Errorf("level %s", e.Level)
				}
			}
			return shown
		}
		for i, tc := range []struct{ text, want string }{
			{"a\nb\nc\n", "a b c"},
			{"a\nb\nc\n", ""},
			{"a\nb\nd\nc\n", "d c"},
			{"a\nb\nd\nc\n", ""},
			{"b\na\n", "b a"},
			{"b\na\n" + strings.Repeat("x\n", maxFirst), strings.TrimSpace(strings.Repeat("x ", maxFirst))},
			{"b\na\n" + strings.Repeat("x\n", maxFirst), "x x"},
		} {
			if got := strings.Join(start(strings.NewReader(tc.text)), " "); got != tc.want {
				t.Errorf("start %d: %q is shown, want %q", i, got, tc.want)
			}
		}
		in, out := io.Pipe()
		go func() {
			io.WriteString(out, "b\n")
			time.Sleep(firstFor + time.Second)
			io.WriteString(out, "a\n")
			out.Close()
		}()
		if got := start(in); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%q is shown of a program that has started long ago, want a", got)
		}
	})
}
