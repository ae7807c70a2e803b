package hostconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Neighbours of a change keep their keys and their form. Their values, and comments, are not shown.
func TestMask(t *testing.T) {
	e := Stdio("/bin/gateway", "/home/me/gateway.yaml")
	for name, tt := range map[string]struct{ host, text, want string }{
		"an entry beside others": {
			"cursor",
			"{\n  // s3cret\n  \"mcpServers\": {\n    \"a\": {\"env\": {\"KEY\": \"s3cret\"}, \"n\": 4711, \"on\": true}, /* s3cret */\n    \"gateway\": {\n      \"command\": \"/bin/gateway\",\n      \"args\": [\"stdio\", \"-c\", \"/home/me/gateway.yaml\"]\n    }\n  }\n}\n",
			"{\n  // …\n  \"mcpServers\": {\n    \"a\": {\"env\": {\"KEY\": \"…\"}, \"n\": …, \"on\": true}, /* … */\n    \"gateway\": {\n      \"command\": \"/bin/gateway\",\n      \"args\": [\"stdio\", \"-c\", \"/home/me/gateway.yaml\"]\n    }\n  }\n}\n",
		},
		"one line":                {"cursor", `{"mcpServers":{"a":{"args":["--key","s3cret \"x: y"],"env":{}}}}`, `{"mcpServers":{"a":{"args":["…","…"],"env":{}}}}`},
		"a comment within a line": {"vscode", `{"servers": {"a": {"command":"s3cret"} /* s3cret */ , "gateway": {"type": "stdio"} , } // s3cret`, `{"servers": {"a": {"command":"…"} /* … */ , "gateway": {"type": "stdio"} , } // …`},
		"a comment of lines":      {"vscode", "{ /* s3cret\n  s3cret: \"s3cret */ \"a\": \"/* s3cret */\", \"b\": /*/ s3cret */ 1 }", "{ /* …\n… */ \"a\": \"…\", \"b\": /* … */ … }"},
		"quotes of no string":     {"codex", "a = 1 # \"\"\" s3cret\nb = \"s3cret'''\"\nargs = [\"stdio\"]\n", "a = … # …\nb = \"…\"\nargs = [\"stdio\"]\n"},
		"a cut string":            {"zed", "{\"a\": \"s3cret\n  s3cret: 1}\r\n", "{\"a\": \"…\"\n  …}\r\n"},
		"TOML":                    {"codex", "# s3cret\n[mcp_servers.\"a b\".env] \nKEY = \"s3cret\" # s3cret\nn = 4711\nl = ['s3cret',\n  [\"s3cret\"]]\n", "# …\n[mcp_servers.\"a b\".env] \nKEY = \"…\" # …\nn = …\nl = ['…',\n  [\"…\"]]\n"},
		"TOML of lines":           {"codex", "a = \"\"\"\ns3cret = s3cret==\n[s3cret]\n\"\"\"\nb = '''s3cret'''\nargs = [\"stdio\"]\n", "…\n…\n…\n…\n…\nargs = [\"stdio\"]\n"},
	} {
		h, _ := Find(tt.host)
		if diff := cmp.Diff(tt.want, h.Mask(tt.text, e)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if strings.Contains(tt.want, "s3cret") && name != "a cut string" {
			t.Errorf("%s: the test wants a secret", name)
		}
	}
	h, _ := Find("cursor")
	for url, want := range map[string]string{"http://127.0.0.1:8080/mcp": `"http://127.0.0.1:8080/mcp"`, "https://me:s3cret@x/mcp": `"…"`, "https://x/mcp?key=s3cret": `"…"`} {
		if got := h.Mask(`{"url": "`+url+`"}`, Entry{URL: url}); got != `{"url": `+want+`}` {
			t.Errorf("%s: %s", url, got)
		}
	}
}
