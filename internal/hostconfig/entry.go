package hostconfig

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
)

// Entry is the gateway in a host's list of servers: a command, or a URL.
type Entry struct {
	Command string // the absolute path of the gateway
	Args    []string
	URL     string
}

// Stdio is the entry that starts a gateway with a configuration.
func Stdio(gateway, config string) Entry {
	return Entry{Command: gateway, Args: []string{"stdio", "-c", config}}
}

// String is the entry in one line, without what may be secret in a URL.
func (e Entry) String() string {
	if e.URL != "" {
		return plainURL(e.URL)
	}
	return strings.Join(append([]string{e.Command}, e.Args...), " ")
}

// Config returns the configuration with which a command starts, "" if it is not where [Stdio] writes it.
func (e Entry) Config() string {
	if len(e.Args) < 3 || e.Args[1] != "-c" {
		return ""
	}
	return e.Args[2]
}

// member is one member of an entry, in the order in which it is written.
type member struct {
	key   string
	value any // string, []string or map[string]any without members
}

// members returns what the host expects of an entry.
func (h Host) members(e Entry) []member {
	if e.URL != "" {
		switch {
		case h.typed:
			return []member{{"type", "http"}, {h.url, e.URL}}
		case h.typedURL:
			return []member{{h.url, e.URL}, {"type", "http"}}
		}
		return []member{{h.url, e.URL}}
	}
	var out []member
	if h.typed {
		out = append(out, member{"type", "stdio"})
	}
	out = append(out, member{"command", e.Command}, member{"args", e.Args})
	if h.emptyEnv {
		out = append(out, member{"env", map[string]any{}})
	}
	return out
}

// decoded is an entry as a decoder returns it.
func (h Host) decoded(e Entry) map[string]any {
	out := make(map[string]any)
	for _, m := range h.members(e) {
		if list, ok := m.value.([]string); ok {
			items := make([]any, len(list))
			for i, s := range list {
				items[i] = s
			}
			out[m.key] = items
			continue
		}
		out[m.key] = m.value
	}
	return out
}

// urlKeys are the members that hold a URL, in any version of any host.
var urlKeys = []string{"url", "serverUrl", "httpUrl"}

// entryOf reads an entry. It returns false if it is not one of a gateway, as [Host.Connect] writes it: a command
// "gateway stdio -c FILE", or a URL. Further members, such as env, do not matter: hosts and users add them.
func entryOf(value any) (Entry, bool) {
	m, ok := value.(map[string]any)
	if !ok {
		return Entry{}, false
	}
	var e Entry
	for _, key := range urlKeys {
		if e.URL, ok = m[key].(string); ok && e.URL != "" {
			return e, m["command"] == nil
		}
	}
	e.Command, _ = m["command"].(string)
	args, _ := m["args"].([]any)
	for _, a := range args {
		s, _ := a.(string)
		e.Args = append(e.Args, s)
	}
	base := strings.TrimSuffix(filepath.Base(strings.ReplaceAll(e.Command, `\`, "/")), ".exe")
	return e, strings.Contains(base, "gateway") && len(e.Args) > 0 && e.Args[0] == "stdio"
}

// plainURL is a URL without user and query.
func plainURL(u string) string {
	u, _, _ = strings.Cut(u, "?")
	if scheme, rest, ok := strings.Cut(u, "://"); ok {
		if _, host, ok := strings.Cut(rest, "@"); ok {
			return scheme + "://" + host
		}
	}
	return u
}

func (e Entry) equal(other Entry) bool {
	return e.Command == other.Command && e.URL == other.URL && slices.Equal(e.Args, other.Args)
}

// quoteJSON is a string in JSON. It keeps <, > and & as they are.
func quoteJSON(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
