package call

import (
	"strings"

	"mcpgateway/internal/wire"
)

// ClaimAt returns the claim with a path: the name of a claim, or nested names with dots
// between them. A claim whose own name contains the dots is found first.
func ClaimAt(claims wire.Value, path string) wire.Value {
	if v := claims.Get(path); v.Exists() {
		return v
	}
	return claims.Get(strings.Split(path, ".")...)
}
