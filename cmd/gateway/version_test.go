package main

import (
	"runtime/debug"
	"testing"
)

func TestVersionOf(t *testing.T) {
	setting := func(keyed ...string) (out []debug.BuildSetting) {
		for i := 0; i < len(keyed); i += 2 {
			out = append(out, debug.BuildSetting{Key: keyed[i], Value: keyed[i+1]})
		}
		return out
	}
	const commit, pseudo = "5c18c78a0b1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e", "v0.0.0-20261121220000-5c18c78a0b1c"
	for _, tt := range []struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		{"v1.2.3", setting("vcs.revision", commit), "v1.2.3"},
		{"v1.2.4-rc.1", nil, "v1.2.4-rc.1"},
		{"(devel)", nil, "devel"},
		{"", setting("vcs.revision", commit, "vcs.time", "2026-11-21T23:30:00+02:00", "vcs.modified", "false"), "devel-5c18c78a0b1c-20261121"},
		{"(devel)", setting("vcs.revision", commit, "vcs.time", "2026-11-21T22:00:00Z", "vcs.modified", "true"), "devel-5c18c78a0b1c-20261121-modified"},
		{pseudo, setting("vcs.revision", commit, "vcs.time", "2026-11-21T22:00:00Z", "vcs.modified", "false"), "devel-5c18c78a0b1c-20261121"},
		{pseudo + "+dirty", setting("vcs.revision", commit, "vcs.modified", "true"), "devel-5c18c78a0b1c-modified"},
		{pseudo, nil, pseudo},
		{"(devel)", setting("vcs.revision", "5c18"), "devel-5c18"},
	} {
		if got := versionOf(&debug.BuildInfo{Main: debug.Module{Version: tt.version}, Settings: tt.settings}); got != tt.want {
			t.Errorf("%s with %v: %s, want %s", tt.version, tt.settings, got, tt.want)
		}
	}
	if got := versionOf(nil); got != "unknown" {
		t.Errorf("without anything: %s", got)
	}
}
