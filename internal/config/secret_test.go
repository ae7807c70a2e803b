package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func TestSecretIsNeverPrinted(t *testing.T) {
	const value = "hunter2"
	s := NewSecret(value)
	type wrapped struct {
		Public Secret
		hidden Secret
		Map    map[string]Secret
	}
	for _, v := range []any{s, &s, []Secret{s}, wrapped{s, s, map[string]Secret{"k": s}}, &wrapped{s, s, nil}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
			got := fmt.Sprintf(verb, v)
			if strings.Contains(got, value) || strings.Contains(strings.ToLower(got), fmt.Sprintf("%x", value)) {
				t.Errorf("%s of %T prints %s", verb, v, got)
			}
		}
		for name, marshal := range map[string]func(any) ([]byte, error){"JSON": json.Marshal, "YAML": yaml.Marshal} {
			got, err := marshal(v)
			if err != nil || strings.Contains(string(got), value) || !strings.Contains(string(got), redacted) {
				t.Errorf("%s of %T is %s, %v", name, v, got, err)
			}
		}
	}
	if text, err := s.MarshalText(); string(text) != redacted || err != nil {
		t.Errorf("text is %s, %v", text, err)
	}
	if got := fmt.Sprintf("%v %s %d %#v %s", s, s, s, s, s.String()); got != strings.TrimSpace(strings.Repeat(redacted+" ", 5)) {
		t.Errorf("printed as %s", got)
	}
	if s.Reveal() != value || s.IsZero() || !(Secret{}).IsZero() || (Secret{}).Reveal() != "" {
		t.Error("Reveal or IsZero does not match the value")
	}
	if !s.Equal(NewSecret(value)) || s.Equal(NewSecret("")) || !NewSecret("").Equal(Secret{}) {
		t.Error("Equal does not compare the values")
	}
}

// A printed configuration shows no secret.
func TestConfigPrintsNoSecret(t *testing.T) {
	c := mustParse(t, "admin: {token: '${TOKEN}'}\nupstreams: {a: {command: a, env: {A: hunter2}}, b: {url: 'http://b', headers: {A: 'Bearer hunter2'}}}\n")
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		if got := fmt.Sprintf(verb, *c) + fmt.Sprintf(verb, c); strings.Contains(got, "hunter2") || strings.Contains(got, "s3cret") {
			t.Errorf("%s prints %s", verb, got)
		}
	}
	if c.Admin.Token.Reveal() != "s3cret-t0ken" || c.Upstreams[1].Headers["A"].Reveal() != "Bearer hunter2" {
		t.Error("the values differ from those of the file")
	}
}

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("gateway.yaml", []byte(text), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
