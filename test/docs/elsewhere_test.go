package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// elsewhere are the commands that this test does not run, with the reason, and with the check of their lines. All other commands run.
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
	{"dnf", "changes the machine, and needs the network", filesExist},
	{"git", "needs the network", filesExist},
	{"make", "make test runs this test", targetsExist},
	{"cd deploy/test", "make test runs it", filesExist},
	{"cd deploy/dist", "make test runs it", filesExist},
	{"pkill", "signals by name and would reach other programs", filesExist},
	{"killall", "signals by name and would reach other programs", filesExist},
	{"pidof", "finds by name and would find other programs", filesExist},
	{"sudo gateway", "asks the packaged service; deploy/dist asks it", usageIsRight},
	{"gateway login", "waits for a user at a browser; the end-to-end tests have one", usageIsRight},
	{"claude", "is a host, with an account", usageIsRight},
	{"code", "is a host, with a screen", usageIsRight},
	{"cursor", "is a host, with a screen", usageIsRight},
}

// runElsewhere reports whether a line contains a command that is not run here, and returns its check.
func runElsewhere(text string) (check func(*testing.T, line), is bool) {
	for _, e := range elsewhere {
		if regexp.MustCompile(`(?m)(^|[;&|(]|\$\(|sudo )\s*(\S*/)?` + regexp.QuoteMeta(e.command) + `(\s|$)`).MatchString(text) {
			return e.check, true
		}
	}
	return nil, false
}

var repositoryPath = regexp.MustCompile(`(?:^|[\s=])((?:deploy|docs|test|cmd|internal|bench)/[^\s;&|)'"]*)`)

// filesExist checks that the files of the repository that a line names exist.
func filesExist(t *testing.T, l line) {
	for _, m := range repositoryPath.FindAllStringSubmatch(l.text, -1) {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("%s: %s is not in the repository", l.place, m[1])
		}
	}
	usageIsRight(t, l)
}

var makeTarget = regexp.MustCompile(`\bmake ([a-z]+)`)

// targetsExist checks that the Makefile has the targets of a line.
func targetsExist(t *testing.T, l line) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range makeTarget.FindAllStringSubmatch(l.text, -1) {
		if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(text) {
			t.Errorf("%s: the Makefile has no target %s", l.place, m[1])
		}
	}
}

var (
	gatewayCommand = regexp.MustCompile(`(?:^|[;&|(]\s*|\S/)gateway((?: [^\s;&|#)]+)*)`)
	flagWord       = regexp.MustCompile(`^--?[a-z][a-z-]*`)
)

// usageIsRight checks that the gateway has the verbs and flags of a line.
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

// inlineCommand matches a command of the gateway or of make in a line of prose.
var inlineCommand = regexp.MustCompile("`((?:\\S*/)?(?:gateway|make)(?: [^`]*)?)`")

// notCommands begin like commands but are none.
var notCommands = map[string]string{"gateway failed": "a message of the log"}

// TestInlineCommands checks commands in prose, which are not run because … stands for the reader's values.
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
