package upstream

import (
	"maps"
	"os"
	"slices"
	"strings"
)

// passed lists the variables of the gateway's own environment that every child
// gets: what programs need to find files, to speak the user's language, and to
// reach the network from where the gateway stands. Everything else may be a
// secret of somebody else's.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
}

// Environ returns the environment of a child: the few variables that every
// child gets, those of the gateway's that inherit names, and those of env,
// which win. It is sorted and never nil.
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
