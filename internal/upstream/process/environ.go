package process

import (
	"maps"
	"os"
	"slices"
	"strings"
)

// passed lists the variables of the gateway's environment that every program gets: to
// find files, to use the user's language, and to reach the network. Any other
// variable may be a secret.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
}

// Environ returns the environment of a program: the variables that every program
// gets, the gateway's variables that inherit names, and env, which takes precedence.
// The result is sorted and never nil.
func Environ(inherit []string, env map[string]string) []string {
	all := map[string]string{}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if slices.Contains(passed, name) || strings.HasPrefix(name, "LC_") || slices.Contains(inherit, name) {
			all[name] = value
		}
	}
	maps.Copy(all, env)
	out := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, name+"="+all[name])
	}
	return out
}
