package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// elsewhere are the commands that this test does not run, with the reason, and with what is checked of the line in place of that. Everything
// else is run.
var elsewhere = []struct {
	command, reason string
	check           func(*testing.T, line)
}{
	{"docker", "needs a container engine; deploy/test runs what the compose file starts, and enters the image's file system", filesExist},
	{"kubectl", "needs a cluster; deploy/test decodes the objects strictly", filesExist},
	{"helm", "needs a cluster; deploy/test renders the chart", filesExist},
	{"kind", "needs a container engine", filesExist},
	{"promtool", "is a program of Prometheus; deploy/test evaluates the rules", filesExist},
	{"systemctl", "needs an init system", filesExist},
	{"journalctl", "needs an init system", filesExist},
	{"brew", "changes the machine, and needs the network", filesExist},
	{"apt-get", "changes the machine, and needs the network", filesExist},
	{"git", "needs the network", filesExist},
	{"make", "make test runs this test", targetsExist},
	{"cd deploy/test", "make test runs it", filesExist},
	{"pkill", "signals by name, and so also what others run", filesExist},
	{"killall", "signals by name, and so also what others run", filesExist},
	{"pidof", "finds by name, and so also what others run", filesExist},
	{"gateway login", "waits for a person at a browser; the end-to-end tests have one", usageIsRight},
	{"claude", "is a host, with an account", usageIsRight},
	{"code", "is a host, with a screen", usageIsRight},
	{"cursor", "is a host, with a screen", usageIsRight},
}

// runElsewhere finds out whether a line has a command that is not run here, wherever in the line it begins.
func runElsewhere(text string) (check func(*testing.T, line), is bool) {
	for _, e := range elsewhere {
		if regexp.MustCompile(`(?m)(^|[;&|(]|\$\(|sudo )\s*(\S*/)?` + regexp.QuoteMeta(e.command) + `(\s|$)`).MatchString(text) {
			return e.check, true
		}
	}
	return nil, false
}

var repositoryPath = regexp.MustCompile(`(?:^|[\s=])((?:deploy|docs|test|cmd|internal|bench)/[^\s;&|)'"]*)`)

// filesExist: what a line names in the repository is there.
func filesExist(t *testing.T, l line) {
	for _, m := range repositoryPath.FindAllStringSubmatch(l.text, -1) {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("%s: %s is not in the repository", l.place, m[1])
		}
	}
	usageIsRight(t, l)
}

var makeTarget = regexp.MustCompile(`\bmake ([a-z]+)`)

// targetsExist: the Makefile has what a line makes.
func targetsExist(t *testing.T, l line) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range makeTarget.FindAllStringSubmatch(l.text, -1) {
		if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(text) {
			t.Errorf("%s: the Makefile makes no %s", l.place, m[1])
		}
	}
}

var (
	gatewayCommand = regexp.MustCompile(`(?:^|[;&|(]\s*|\S/)gateway((?: [^\s;&|#)]+)*)`)
	flagWord       = regexp.MustCompile(`^--?[a-z][a-z-]*`)
)

// usageIsRight: the verbs and flags of the gateway that a line uses are those that it has.
func usageIsRight(t *testing.T, l line) {
	for _, m := range gatewayCommand.FindAllStringSubmatch(l.text, -1) {
		words := strings.Fields(m[1])
		verb := ""
		if len(words) > 0 && regexp.MustCompile(`^[a-z]+$`).MatchString(words[0]) {
			verb = words[0]
		}
		help, ok := usage(t, verb)
		if !ok {
			t.Errorf("%s: gateway has no verb %s", l.place, verb)
			continue
		}
		for _, w := range words {
			if f := flagWord.FindString(w); f != "" && !regexp.MustCompile(`(?m)[\s,]`+regexp.QuoteMeta(f)+`[\s,]`).MatchString(help) {
				t.Errorf("%s: gateway %s has no flag %s", l.place, verb, f)
			}
		}
	}
}

// inlineCommand is a command of the gateway or of make in a line of prose.
var inlineCommand = regexp.MustCompile("`((?:\\S*/)?(?:gateway|make)(?: [^`]*)?)`")

// notCommands begin as a command does, and are none.
var notCommands = map[string]string{"gateway failed": "a message of the log"}

// TestInlineCommands looks at commands in prose, which nobody runs as they are, with … for what the reader knows.
func TestInlineCommands(t *testing.T) {
	for _, doc := range documents(t) {
		for _, l := range doc.prose {
			for _, m := range inlineCommand.FindAllStringSubmatch(l.text, -1) {
				l := line{l.place, m[1]}
				switch {
				case notCommands[m[1]] != "":
				case strings.HasPrefix(m[1], "make"):
					targetsExist(t, l)
				default:
					usageIsRight(t, l)
				}
			}
		}
	}
}
