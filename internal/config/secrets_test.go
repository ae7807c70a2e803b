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
  zap:
    url: https://zap.example/${MODE}/${TOKEN}/api/mcp/s/NjgxYjY0/NzU2OTVmMmQtNGI1Zi00ODE5/mcp
  search:
    url: https://search.example/mcp?api_key=query-key&page=12
    headers: {Authorization: "Bearer ${TOKEN}", X-Mode: production}
`), lookup)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		pem, "Bearer tok-of-search", "MIGHAgEAMBMGByqGSM49", "NzU2OTVmMmQtNGI1Zi00ODE5", "admin-secret", "inherited-one", "literal-key",
		"pg.Pass9word", "query-key", "tok-of-search", "who-calls",
	}
	if diff := cmp.Diff(want, c.Secrets(lookup)); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
}

// TestIsPlain has values that stay readable in messages of upstreams, and values that are
// masked.
func TestIsPlain(t *testing.T) {
	for name, values := range map[string][]string{
		"LOG_LEVEL": {"verbose", "WARNING"}, "PORT": {"8080", "0"}, "AWS_REGION": {"eu-central-1", "us-east-1"},
		"PATH": {"/usr/local/bin:/usr/bin:/bin", `C:\Users\me`}, "DIRS": {"/a,/b c", "~/x", "./y"},
		"BASE_URL": {"https://api.example.com/v1", "http://localhost:3000"}, "DB_HOST": {"db.example.com", "127.0.0.1:5432", "db.example.com:5432"},
		"VERSION": {"1.10.3", "2024-11-05"}, "LANG": {"en_US.UTF-8"}, "KEY_FILE": {"/etc/ssl/key.pem"},
	} {
		for _, v := range values {
			if !isPlain(name, v) {
				t.Errorf("%s=%s is masked", name, v)
			}
		}
	}
	for name, values := range map[string][]string{
		"API_KEY": {"abcdef", "12345", "/a/b"}, "PASSWORD": {"verbose", "123456"}, "FOO": {"hunter", "hunter2", "Tr0ub4dor&3", "a b", "me@example.com", "123456789"},
		"DATABASE_URL": {"postgres://u:p@h/db", "https://u@h/x", "https://h/x?a=b", "https://hooks.example.com/services/T0AB12CD3/B0XY98ZW7/Xk29dkQpLw8nZbVr4TyUqAsE"},
		"accessToken":  {"x"}, "githubPat": {"x"}, "X-Api-Key": {"x"}, "Cookie": {"a=b"}, "NAME": {"abc.def"}, "CACHE": {"/tmp/9f86d081884c7d659a2feaa0c55ad015"},
	} {
		for _, v := range values {
			if isPlain(name, v) {
				t.Errorf("%s=%s stays readable", name, v)
			}
		}
	}
}

// TestIsRandom has parts of paths that are secrets of a user, and names.
func TestIsRandom(t *testing.T) {
	for _, part := range []string{
		"9f86d081884c7d659a2feaa0c55ad015", "9f86d081-884c-7d65-9a2f-eaa0c55ad015", "Xk29dkQpLw8nZbVr4TyUqAsE", "NzU2OTVmMmQtNGI1Zi00ODE5LWE0==", "aB3dE_fG-hI7jK8m",
	} {
		if !isRandom(part) {
			t.Errorf("%s stays readable", part)
		}
	}
	for _, part := range []string{
		"mcp", "v1", "streamable-http", "servers-of-the-weather-service", "McpServerEndpointForSales", "my-server-2025-06-18", "api.example.com", "llama3.1-8b-instruct-q4", "T0AB12CD3",
	} {
		if isRandom(part) {
			t.Errorf("%s is masked", part)
		}
	}
}
