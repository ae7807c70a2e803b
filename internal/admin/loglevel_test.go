package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// levelRequest sends a request from this machine, and returns the status and the body.
func levelRequest(h http.Handler, method, body, bearer string) (int, string) {
	r := httptest.NewRequest(method, "http://127.0.0.1/-/loglevel", strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:1000"
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestLogLevel(t *testing.T) {
	level := zap.NewAtomicLevelAt(zap.InfoLevel)
	for name, h := range map[string]http.Handler{"address": handler(Options{LogLevel: &level}), "socket": NewLocal(Options{LogLevel: &level})} {
		level.SetLevel(zap.InfoLevel)
		for _, tt := range []struct {
			method, body string
			status       int
			answer       string
			level        zapcore.Level
		}{
			{"GET", "", 200, `{"level":"info"}`, zap.InfoLevel},
			{"PUT", `{"level":"debug"}`, 200, `{"level":"debug"}`, zap.DebugLevel},
			{"GET", "", 200, `{"level":"debug"}`, zap.DebugLevel},
			{"PUT", `{"level":"error"}`, 200, `{"level":"error"}`, zap.ErrorLevel},
			{"PUT", `{"level":"fatal"}`, 400, `bad request: send {"level": "debug"}, or info, warn or error`, zap.ErrorLevel},
			{"PUT", `{"level":"DEBUG"}`, 400, `bad request: send {"level": "debug"}, or info, warn or error`, zap.ErrorLevel},
			{"PUT", `debug`, 400, `bad request: send {"level": "debug"}, or info, warn or error`, zap.ErrorLevel},
			{"PUT", `{"level":"` + strings.Repeat("x", 2<<10) + `"}`, 400, `bad request: send {"level": "debug"}, or info, warn or error`, zap.ErrorLevel},
			{"POST", `{"level":"debug"}`, 405, "", zap.ErrorLevel},
		} {
			status, answer := levelRequest(h, tt.method, tt.body, "")
			if status != tt.status || answer != tt.answer || level.Level() != tt.level {
				t.Errorf("%s: %s %.40s: %d %q, level %s", name, tt.method, tt.body, status, answer, level.Level())
			}
		}
	}
}

// The level is shown and changed with the admin's token only, and by no page in a browser.
func TestLogLevelIsForAdmins(t *testing.T) {
	level := zap.NewAtomicLevelAt(zap.InfoLevel)
	h := handler(Options{LogLevel: &level, Token: "secret"})
	for _, method := range []string{"GET", "PUT"} {
		if status, _ := levelRequest(h, method, `{"level":"debug"}`, ""); status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", method, status)
		}
		if status, _ := levelRequest(h, method, `{"level":"debug"}`, "secret"); status != http.StatusOK {
			t.Errorf("%s with the token: %d", method, status)
		}
	}
	level.SetLevel(zap.InfoLevel)
	r := httptest.NewRequest("PUT", "http://127.0.0.1/-/loglevel", strings.NewReader(`{"level":"debug"}`))
	r.Header.Set("Origin", "http://127.0.0.1")
	r.Header.Set("Authorization", "Bearer secret")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || level.Level() != zap.InfoLevel {
		t.Errorf("a page set the level %s: %d", level.Level(), w.Code)
	}
	if status, _ := levelRequest(handler(Options{}), "GET", "", ""); status != http.StatusNotFound {
		t.Errorf("without a level: %d", status)
	}
}

// A change is told while the lower level is in force, so that the log has it.
func TestLevelChangesAreTold(t *testing.T) {
	level := zap.NewAtomicLevelAt(zap.WarnLevel)
	var told []string
	h := NewLocal(Options{LogLevel: &level, LevelChanging: func(_ http.ResponseWriter, _ *http.Request, from, to zapcore.Level) {
		told = append(told, from.String()+" "+to.String()+" "+level.String())
	}})
	for _, to := range []string{"error", "error", "debug"} {
		levelRequest(h, "PUT", `{"level":"`+to+`"}`, "")
	}
	if want := []string{"warn error warn", "error debug debug"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// Each refused request is told, with its status and no token.
func TestRefusedRequestsAreTold(t *testing.T) {
	level := zap.NewAtomicLevelAt(zap.InfoLevel)
	var told []string
	h := handler(Options{LogLevel: &level, Token: "s3cret", Refused: func(_ http.ResponseWriter, r *http.Request, status int, reason string) {
		told = append(told, fmt.Sprint(r.URL.Path, " ", status, " ", reason))
	}})
	levelRequest(h, "GET", "", "wr0ng")
	levelRequest(h, "GET", "", "s3cret")
	if want := []string{"/-/loglevel 401 send admin.token as a bearer token"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
