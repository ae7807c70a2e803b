package config

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/quick"

	"mcpgateway/internal/plaintext"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "17": 17, "17B": 17, "1KB": 1000, "1kB": 1000, "1KiB": 1024, "16MiB": 16 << 20, "1 MB": 1e6, "2GiB": 2 << 30, "3GB": 3e9,
	} {
		got, err := parseSize(text)
		if err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
		if again, err := parseSize(got.String()); err != nil || again != got {
			t.Errorf("%s prints as %s, and that parses as %d, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "1Mib", "1m", "16 Mi", "9223372036854775808", "9999999999GiB", "0x10", "1_000", " 1"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

func TestUI(t *testing.T) {
	for text, want := range map[string]UI{"true": UIOn, "True": UIOn, "false": UIOff, "public": UIPublic, `"${NONE:-public}"`: UIPublic} {
		cfg, err := Parse("gateway.yaml", []byte("upstreams: {a: {command: a}}\nauth: {mode: api-key, api_keys: [{id: a, sha256: "+strings.Repeat("a", 64)+"}]}\nadmin: {ui: "+text+"}\n"), func(string) (string, bool) { return "", false })
		if err != nil || cfg.Admin.UI != want {
			t.Errorf("%s: %v, %v", text, cfg, err)
		}
	}
}

func TestSlug(t *testing.T) {
	if err := quick.Check(func(key string) bool {
		name := NameOf(key)
		return namePattern.MatchString(name) && NameOf(key) == name && NameOf(name) == name
	}, nil); err != nil {
		t.Error(err)
	}
	long := strings.Repeat("x", 40)
	if NameOf(long) == NameOf(long+"x") {
		t.Error("long keys with the same beginning get the same name")
	}
	if got := NameOf(strings.Repeat("x", 22) + " " + long); !regexp.MustCompile(`^x{22}-[0-9a-f]{8}$`).MatchString(got) {
		t.Errorf("a key cut at a - became %s", got)
	}
	if got := NameOf(strings.Repeat("a", 32)); got != strings.Repeat("a", 32) {
		t.Errorf("a name of full length became %s", got)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"command", "url", "max_queue", "env", "envFile"}
	for word, want := range map[string]string{
		"comand": "command", "cmomand": "command", "commands": "command", "maxQueue": "max_queue", "max-queue": "max_queue",
		"URL": "url", "ulr": "url", "envfile": "envFile", "env_file": "envFile",
		"x": "", "": "", "colander": "", "listen": "", strings.Repeat("c", 1000): "",
	} {
		if got := plaintext.Nearest(word, known); got != want {
			t.Errorf("nearest to %.20q is %q, want %q", word, got, want)
		}
	}
}

func TestExpansionsReveal(t *testing.T) {
	c, err := Load("testdata/good/everything.yaml", testEnv)
	if err != nil {
		t.Fatal(err)
	}
	env := make(map[string]string)
	for name, s := range c.Upstreams[0].Env {
		env[name] = s.Reveal()
	}
	for name, want := range map[string]string{
		"A": "1", "TOKEN": "s3cret-t0ken" /* env goes before envFile */, "Q": "a \"b\" \n", "S": "x # y", "P": "plain", "LOG_LEVEL": "info",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	if got := c.Upstreams[1].Headers["Authorization"].Reveal(); got != "Bearer t0ken" {
		t.Errorf("the header is %q", got)
	}
	if got, want := c.Upstreams[0].Cwd, "testdata/good/work"; got != want {
		t.Errorf("cwd is %q, want %q", got, want)
	}
	if got, want := c.StateDir, "testdata/good/state"; got != want {
		t.Errorf("state_dir is %q, want %q", got, want)
	}

	c, err = Load("testdata/good/vscode.json", testEnv)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Upstreams[1].Env["PERPLEXITY_API_KEY"].Reveal(); got != "s3cret-input" {
		t.Errorf("the input is %q", got)
	}
}

// TestErrorsShowNoPartOfASecret uses passwords that look like references ${…}.
func TestErrorsShowNoPartOfASecret(t *testing.T) {
	for _, value := range []string{"hun${ter2", "hun${t e r 2}", "a${b${ter2}", "${ter2-x}"} {
		_, err := Parse("gateway.yaml", []byte("admin: {token: '"+value+"'}\nupstreams: {a: {command: a}}\n"), testEnv)
		if err == nil || regexp.MustCompile(`hun|ter2|t e r`).MatchString(err.Error()) {
			t.Errorf("for %s: %v", value, err)
		}
	}
}

func TestInputVariable(t *testing.T) {
	for id, want := range map[string]string{"my-key": "MY_KEY", "API_KEY2": "API_KEY2", "2fa": "_2FA", "": "_", "é": "_"} {
		if got := InputVariable(id); got != want {
			t.Errorf("%q is read from %q, want %q", id, got, want)
		}
	}
}

func TestRedactedURL(t *testing.T) {
	for url, want := range map[string]string{
		"https://a.example.com/mcp":                                 "https://a.example.com/mcp",
		"https://a.example.com/mcp?key=1&b=2":                       "https://a.example.com/mcp?[redacted]",
		"https://a.example.com/s/NzU2OTVmMmQtNGI1Zi00ODE5/mcp":      "https://a.example.com/s/[redacted]/mcp",
		"https://a.example.com/NzU2OTVmMmQtNGI1%2FZi00%3D%3D?key=1": "https://a.example.com/[redacted]?[redacted]",
		"http://[::1]:80/?":                                         "http://[::1]:80/?",
		"http://a.example.com/%zz?key=something":                    "[redacted]",
	} {
		if got := (Connection{URL: url}).RedactedURL(); got != want {
			t.Errorf("%s is shown as %s, want %s", url, got, want)
		}
	}
}

func TestValidUpstream(t *testing.T) {
	for _, tc := range []struct{ url, header, value, want string }{
		{"https://x.example/mcp", "X-A", "v", ""},
		{"nonsense", "X-A", "v", "the url must be an absolute http or https URL, such as https://mcp.example.com/mcp"},
		{"https://x.example/mcp", "Mcp-Session-Id", "v", `the header "Mcp-Session-Id" is a header that the gateway sets itself; remove it`},
		{"https://x.example/mcp", "X A", "v", `the header "X A" must be the name of an HTTP header`},
		{"https://x.example/mcp", "X-A", "s3cret\n", `the header "X-A" must not contain line ends or other control characters`},
	} {
		u := DefaultUpstream("x")
		u.URL, u.Headers = tc.url, map[string]Secret{tc.header: NewSecret(tc.value)}
		got := ""
		if err := u.Valid(); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%+v: %q, want %q", tc, got, tc.want)
		}
	}
}

// A number that is too large is told its bounds, also one that no integer of this machine holds.
func TestNumbersThatAreTooLarge(t *testing.T) {
	for text, want := range map[string]string{
		"scripts: {steps: 2000000000}":                  "scripts.steps: must be between 1000 and 1000000000, not",
		"scripts: {steps: 99999999999999999999}":        "scripts.steps: must be between 1000 and 1000000000, not",
		"scripts: {steps: -99999999999999999999}":       "scripts.steps: must be between 1000 and 1000000000, not",
		"scripts: {steps: 1.5}":                         "scripts.steps: must be a whole number, not a fraction",
		"profiles: {default: {max_result: 9000000GiB}}": "profiles.default.max_result: must be between 0 and 1GiB, not",
	} {
		_, err := Parse("gateway.yaml", []byte("upstreams: {files: {command: files}}\n"+text+"\n"), testEnv)
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// $NAME in place of ${NAME} is reported where a variable is likely meant. The value is not shown.
func TestVariablesOfShells(t *testing.T) {
	for text, want := range map[string]string{
		"upstreams: {a: {url: 'http://a', headers: {A: 'Bearer $TOKEN'}}}":             "1:47: upstreams.a.headers.A: $TOKEN stands for itself here; write ${TOKEN} for the value of the variable",
		"upstreams: {a: {url: 'http://a/?key=$TOKEN'}}":                                "1:22: upstreams.a.url: $TOKEN stands for itself here; write ${TOKEN} for the value of the variable",
		"upstreams: {a: {command: a, env: {A: $TOKEN}}}":                               "1:38: upstreams.a.env.A: $TOKEN stands for itself here; write ${TOKEN} for the value of the variable",
		"upstreams: {a: {command: a, args: [$TOKEN/b]}}":                               "1:36: upstreams.a.args[0]: $TOKEN stands for itself here; write ${TOKEN} for the value of the variable",
		"upstreams: {a: {command: sh, args: [-c, 'echo $TOKEN'], env: {A: '$UNSET'}}}": "",
		"upstreams: {a: {command: a, env: {A: 'x$TOKEN $${TOKEN} $$TOKEN ${TOKEN}'}}}": "",
		"upstreams: {a: {command: a, tools: {deny: ['$TOKEN']}}}":                      "",
	} {
		c := mustParse(t, text)
		got := ""
		for _, w := range c.Warnings {
			got += w.String()
		}
		if want != "" {
			want = "gateway.yaml:" + want
		}
		if got != want {
			t.Errorf("%s: the warnings are %q, want %q", text, got, want)
		}
	}
}

// A header that is empty because a variable or a file is empty is reported. The warning shows no value.
func TestEmptyHeaders(t *testing.T) {
	const none = "testdata/good/empty.txt"
	for header, want := range map[string]string{
		`Authorization: "Bearer ${EMPTY}"`:            "has nothing after Bearer: ${EMPTY} is empty; give it a value",
		`X-Auth: "basic  ${env:EMPTY} ${EMPTY}"`:      "has nothing after basic: ${env:EMPTY} and ${EMPTY} are empty; give them values",
		`X-Key: "${EMPTY}"`:                           "has no value: ${EMPTY} is empty; give it a value",
		`X-Key: "${EMPTY} ${EMPTY:-}"`:                "has no value: ${EMPTY} is empty; give it a value",
		`X-Key: "${file:` + none + `}"`:               "has no value: ${file:" + none + "} is empty; give it a value",
		`Authorization: "Bearer ${EMPTY:-}"`:          "",
		`Authorization: "Bearer ${EMPTY:-s3cret}"`:    "",
		`Authorization: "Bearer ${TOKEN}${EMPTY}"`:    "",
		`Authorization: "Bearer x${EMPTY}"`:           "",
		`X-Kind: "key${EMPTY}"`:                       "",
		`X-Kind: ""`:                                  "",
		`X-Kind: "{{principal.subject}}${EMPTY}"`:     "",
		`A: "${EMPTY:-}", X: ""`:                      "",
		`Authorization: "Bearer ${EMPTY}", X: "Key "`: "has nothing after Bearer: ${EMPTY} is empty; give it a value",
	} {
		for _, text := range []string{
			"upstreams: {a: {url: 'https://a.example', session: per-client, headers: {" + header + "}}}",
			"upstreams: {a: {command: a}}\ntelemetry: {otlp: {endpoint: 'https://o.example', headers: {" + header + "}}}",
		} {
			c := mustParse(t, text)
			got := ""
			for _, w := range c.Warnings {
				got += w.Msg
			}
			if got != want {
				t.Errorf("%s: the warnings are %q, want %q", text, got, want)
			}
		}
	}
	if c := mustParse(t, "upstreams: {a: {command: a, env: {A: '${EMPTY}', B: 'Bearer ${EMPTY}'}}}"); len(c.Warnings) > 0 {
		t.Errorf("variables of a program may be empty: %v", c.Warnings)
	}
}
