package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	const pem = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\nshort\n-----END PRIVATE KEY-----"
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte(pem+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(`[{name: one, effect: allow, who: {subjects: ["${SUBJECT}"]}}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"SUBJECT": "who-calls", "TOKEN": "tok-of-search", "HOME_DIR": "/home/ann", "MODE": "production", "PIN": "12345", "DB": "pg.Pass9word", "GH_TOKEN": "inherited-one", "LANG": "C.UTF-8",
	}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	c, err := Parse(filepath.Join(dir, "gateway.yaml"), []byte(`
admin: {listen: "127.0.0.1:0", token: "admin-secret"}
policy: {files: [rules.yaml]}
upstreams:
  files:
    command: ${HOME_DIR}/server
    args: ["--mode=${MODE}", "--db", "postgres://u:${DB}@h/d", "${MISSING:-fallback}"]
    env: {API_KEY: "literal-key", LOG_LEVEL: verbose, PIN: "${PIN}", KEY: "${file:key}"}
    inherit_env: [GH_TOKEN, LANG]
  search:
    url: https://search.example/mcp?api_key=query-key&page=12
    headers: {Authorization: "Bearer ${TOKEN}", X-Mode: production}
`), lookup)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		pem, "Bearer tok-of-search", "MIGHAgEAMBMGByqGSM49", "admin-secret", "inherited-one", "literal-key",
		"pg.Pass9word", "query-key", "tok-of-search", "who-calls",
	}
	if diff := cmp.Diff(want, c.Secrets(lookup)); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
}
