package replicas

import (
	"strings"
	"testing"

	"mcpgateway/test/internal/rig"
)

// keysOf returns the keys of a kind in the store, or all with "".
func keysOf(t *testing.T, addr, kind string) []string {
	t.Helper()
	var out []string
	for _, key := range strings.Fields(rig.RedisCLI(t, addr, "keys", "*")) {
		if parts := strings.Split(key, ":"); kind == "" || len(parts) == 4 && parts[2] == kind {
			out = append(out, key)
		}
	}
	return out
}

// fieldsOf returns the names of the fields of a key.
func fieldsOf(t *testing.T, addr, key string) []string {
	t.Helper()
	return strings.Fields(rig.RedisCLI(t, addr, "hkeys", key))
}
