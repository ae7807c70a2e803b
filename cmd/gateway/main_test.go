package main

import (
	"os"
	"testing"

	"mcpgateway/internal/upstream/process"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	process.SuperviseMain() // the commands are this binary
	testscript.Main(m, map[string]func(){"gateway": main})
}

// TestScripts runs the command as a person would: testdata/script/*.txtar.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CONFIG_HOME", env.WorkDir+"/config")
			return nil
		},
	})
}
