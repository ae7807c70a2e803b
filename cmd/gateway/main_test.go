package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"mcpgateway/internal/upstream/process"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	process.SuperviseMain() // this binary is also every command of the scripts
	testscript.Main(m, map[string]func(){"gateway": main})
}

// TestScripts runs the commands in testdata/script/*.txtar.
func TestScripts(t *testing.T) {
	// The package removes a folder of its own only after all scripts, not after those of -run.
	root, err := os.MkdirTemp("", "script")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) }) // a program that a script killed may still write
	// A server of the scripts that uses OAuth and answers no request.
	oauth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://`+r.Host+`/.well-known/oauth-protected-resource"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(oauth.Close) // the scripts end later
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		WorkdirRoot:   root,
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CONFIG_HOME", env.WorkDir+"/config")
			env.Setenv("OAUTH_SERVER", oauth.URL+"/mcp")
			return nil
		},
	})
}
