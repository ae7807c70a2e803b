package gateway

import (
	"testing"

	"mcpgateway/internal/config"
)

// With auto, large results are compressed only if clients may be on other machines.
func TestCompressionSettings(t *testing.T) {
	for _, tt := range []struct {
		listen         string
		compression    config.Compression
		lists, results bool
	}{
		{"127.0.0.1:8080", config.CompressAuto, true, false},
		{"localhost:8080", config.CompressAuto, true, false},
		{":8080", config.CompressAuto, true, true},
		{"192.0.2.1:8080", config.CompressAuto, true, true},
		{"127.0.0.1:8080", config.CompressAlways, true, true},
		{":8080", config.CompressLists, true, false},
		{":8080", config.CompressOff, false, false},
	} {
		g := &Gateway{cfg: &config.Config{Listen: tt.listen}}
		got := g.settingsOf(&config.Config{Listen: "ignored until a restart", Compression: tt.compression})
		if got.CompressLists != tt.lists || got.CompressResults != tt.results {
			t.Errorf("%s, %s: lists %v, results %v, want %v, %v", tt.listen, tt.compression, got.CompressLists, got.CompressResults, tt.lists, tt.results)
		}
	}
}
