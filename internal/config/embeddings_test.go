package config

import (
	"fmt"
	"strings"
	"testing"
)

// Each fault of the server is one error.
func TestEmbeddingsErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{url: "ftp://x", model: small, key: k3y}`: "embeddings.url: must be",
		`{model: small}`:                     "embeddings.model: needs url",
		`{url: "", model: small}`:            "embeddings.model: needs url",
		`{key: k3y}`:                         "embeddings.key: needs url and model",
		`{url: "http://127.0.0.1:11434/v1"}`: "embeddings.url: needs model",
	} {
		_, err := Parse("gateway.yaml", []byte("upstreams: {files: {command: files}}\nembeddings: "+text+"\n"), func(string) (string, bool) { return "", false })
		if got := fmt.Sprint(err); !strings.Contains(got, want) || strings.Count(got, "embeddings.") != 1 {
			t.Errorf("%s: %s, want %s alone", text, got, want)
		}
	}
}

// A key that is sent in clear text gets a warning, which does not show it.
func TestEmbeddingsKeyInClearText(t *testing.T) {
	for url, warns := range map[string]bool{"http://10.0.0.7/v1": true, "https://api.example.com/v1": false, "http://127.0.0.1:11434/v1": false} {
		cfg, err := Parse("gateway.yaml", []byte(`
upstreams: {files: {command: files}}
embeddings: {url: "`+url+`", model: small, key: k3y-of-embeddings}
`), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(cfg.Warnings); strings.Contains(got, "embeddings.url: key goes over the network unprotected") != warns || strings.Contains(got, "k3y") {
			t.Errorf("%s: warnings %s", url, got)
		}
	}
}
