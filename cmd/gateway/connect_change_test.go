package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// connect replaces its entry in place, also if no backup shows how the file was before. The change that it shows has nothing else,
// and disconnect then leaves the rest.
func TestConnectInPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".claude.json")
	const before, after = `{
  "mcpServers": {
    "gateway": {
      "type": "http",
      "url": "http://127.0.0.1:1/mcp"
    }
  },
  "theme": "dark"
}
`, "{\n  \"theme\": \"dark\"\n}\n"
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ args, want string }{
		{"connect claude-code --http http://127.0.0.1:1/mcp/coding --yes --file " + file, strings.Replace(before, ":1/mcp", ":1/mcp/coding", 1)},
		{"disconnect claude-code --yes --file " + file, after},
	} {
		var out, errs strings.Builder
		if status := run(strings.Fields(step.args), strings.NewReader(""), &out, &errs); status != exitDone {
			t.Fatalf("%s: %d\n%s%s", step.args, status, &out, &errs)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != step.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", step.args, err, got, step.want)
		}
		if strings.Contains(out.String(), "\n-  \"theme\"") {
			t.Errorf("%s shows a change of another key:\n%s", step.args, &out)
		}
	}
}
