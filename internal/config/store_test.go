package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestStoreURLs(t *testing.T) {
	for text, want := range map[string]Servers{
		"redis://host":                       {Addrs: []string{"host:6379"}},
		"redis://host:7000/3":                {Addrs: []string{"host:7000"}, DB: 3},
		"REDISS://[::1]:7000/":               {Addrs: []string{"[::1]:7000"}, TLS: true},
		"redis://:secret@127.0.0.1":          {Addrs: []string{"127.0.0.1:6379"}, Password: "secret"},
		"redis://user:p%40%2F,s@host":        {Addrs: []string{"host:6379"}, Username: "user", Password: "p@/,s"},
		"redis+cluster://a,b:7000,[::1]":     {Cluster: true, Addrs: []string{"a:6379", "b:7000", "[::1]:6379"}},
		"rediss+sentinel://u:p@a,b:1/main/2": {Sentinel: true, TLS: true, Addrs: []string{"a:26379", "b:1"}, Master: "main", DB: 2, Username: "u", Password: "p"},
		"redis+sentinel://a/m?sentinel_user=su&sentinel_password=s%26p": {Sentinel: true, Addrs: []string{"a:26379"}, Master: "m", SentinelUsername: "su", SentinelPassword: "s&p"},
	} {
		got, err := parseStoreURL(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "host:6379", "http://secret@host", "redis:host", "redis+://host", "redis+tcp://host", "redis+cluster+sentinel://host", "redis://", "redis://secret@", "redis://a,b", "redis://host/x",
		"redis://host/-1", "redis://host/1/2", "redis://host:0", "redis://host:65536", "redis://host:x", "redis://host?db=secret", "redis://host#secret", "redis://u:secret%zz@host",
		"redis+cluster://a/1", "redis+cluster://a,,b", "redis+sentinel://a", "redis+sentinel://a/m/x", "redis+sentinel://a/m?secret=1", "redis://secret@secret@host/secret", "redis://host\n",
	} {
		if _, err := parseStoreURL(text); err == nil || !strings.HasPrefix(err.Error(), "must") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q gives the error %v", text, err)
		}
	}
}

func TestStore(t *testing.T) {
	const key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	for name, tc := range map[string]struct{ text, errs, warns string }{
		"nothing":             {"", "", ""},
		"memory":              {"store: {kind: memory}", "", ""},
		"memory with a url":   {"store: {url: \"redis://127.0.0.1\"}", "", "has no effect with kind memory"},
		"redis":               {"store: {kind: redis, url: \"redis://127.0.0.1\"}\nbridge: {keys: [" + key + "]}", "", ""},
		"without url":         {"store: {kind: redis}\nbridge: {keys: [" + key + "]}", "kind redis needs url", ""},
		"an empty url":        {"store: {kind: redis, url: \"\"}\nbridge: {keys: [" + key + "]}", "must be redis://", ""},
		"a wrong url":         {"store: {kind: redis, url: \"tcp://127.0.0.1\"}\nbridge: {keys: [" + key + "]}", "must be redis://", ""},
		"without bridge.keys": {"store: {kind: redis, url: \"redis://127.0.0.1\", key: " + key + "}", "needs bridge.keys", ""},
		"wrong bridge.keys":   {"store: {kind: redis, url: \"redis://127.0.0.1\"}\nbridge: {keys: [short]}", "must be 32 random bytes", ""},
		"a wrong key":         {"store: {kind: redis, url: \"redis://127.0.0.1\", key: short}\nbridge: {keys: [" + key + "]}", "must be 32 random bytes", ""},
		"a wrong kind":        {"store: {kind: valkey}", "must be memory or redis", ""},
		"a wrong prefix":      {"store: {kind: redis, url: \"redis://127.0.0.1\", prefix: \"a b\"}\nbridge: {keys: [" + key + "]}", "must be 1 to 64 characters", ""},
		"in clear text":       {"store: {kind: redis, url: \"redis://redis.internal\"}\nbridge: {keys: [" + key + "]}", "", "unprotected; write rediss"},
		"tls without TLS":     {"store: {kind: redis, url: \"redis://127.0.0.1\", tls: {ca: ca.pem}}\nbridge: {keys: [" + key + "]}", "url has none", ""},
		"half a certificate":  {"store: {kind: redis, url: \"rediss://127.0.0.1\", tls: {cert: c.pem}}\nbridge: {keys: [" + key + "]}", "both cert and key", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Parse("/etc/gateway.yaml", []byte("upstreams: {a: {command: x}}\n"+tc.text), func(string) (string, bool) { return "", false })
			var errs Errors
			if err != nil {
				errs = err.(Errors)
			}
			if (tc.errs == "") != (len(errs) == 0) || len(errs) > 1 || len(errs) == 1 && !strings.Contains(errs[0].Error(), tc.errs) {
				t.Fatalf("the errors are %v, want %q", errs, tc.errs)
			}
			if c == nil {
				return
			}
			if (tc.warns == "") != (len(c.Warnings) == 0) || len(c.Warnings) == 1 && !strings.Contains(c.Warnings[0].Msg, tc.warns) {
				t.Errorf("the warnings are %v, want %q", c.Warnings, tc.warns)
			}
		})
	}
}

// Passwords in the URL are secrets by themselves, and the URL is not printed.
func TestStoreSecrets(t *testing.T) {
	c := &Config{Store: Store{URL: NewSecret("redis+sentinel://user:main%2Fpassword@host/main?sentinel_password=other-password")}}
	got := c.Secrets(func(string) (string, bool) { return "", false })
	for _, want := range []string{"main/password", "other-password"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is no secret; the secrets are %q", want, got)
		}
	}
	if text := fmt.Sprintf("%+v", c.Store); strings.Contains(text, "password") {
		t.Errorf("it prints as %s", text)
	}
}

// Paths of files are relative to the configuration.
func TestStoreFiles(t *testing.T) {
	c, err := Parse("/etc/gateway.yaml", []byte(`upstreams: {a: {command: x}}
bridge: {keys: [AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=]}
store: {kind: redis, url: "rediss://host", tls: {ca: ca.pem, cert: /c.pem, key: k.pem}}`), func(string) (string, bool) { return "", false })
	if want := (ClientTLS{"/etc/ca.pem", "/c.pem", "/etc/k.pem"}); err != nil || c.Store.TLS != want {
		t.Errorf("the files are %+v, %v; want %+v", c, err, want)
	}
}
