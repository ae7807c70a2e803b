package call

import (
	"testing"

	"mcpgateway/internal/wire"
)

func TestClaimAt(t *testing.T) {
	claims := wire.ValueOf(wire.Raw(`{"sub":"s","realm":{"roles":"r","a.b":"no"},"https://example.com/x":"u","a.b":"dots","a":{"b":"nested"}}`))
	for path, want := range map[string]string{
		"sub": "s", "realm.roles": "r", "https://example.com/x": "u", "a.b": "dots", "realm.a.b": "", "none": "", "sub.x": "",
	} {
		if got := ClaimAt(claims, path).Str(); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
