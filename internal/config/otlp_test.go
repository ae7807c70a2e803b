package config

import (
	"strings"
	"testing"
)

func TestOTLPSignals(t *testing.T) {
	for _, tt := range []struct {
		otlp OTLP
		want string
	}{
		{OTLP{}, ""},
		{OTLP{Signals: []Signal{SignalTraces}}, ""},
		{OTLP{Endpoint: "http://127.0.0.1:4317"}, "traces metrics logs"},
		{OTLP{Endpoint: "http://127.0.0.1:4317", Signals: []Signal{SignalLogs}}, "logs"},
	} {
		var has []string
		for _, s := range []Signal{SignalTraces, SignalMetrics, SignalLogs} {
			if tt.otlp.Has(s) {
				has = append(has, string(s))
			}
		}
		if got := strings.Join(has, " "); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.otlp, got, tt.want)
		}
	}
}
