package landing

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"

	"mcpgateway/internal/hostconfig"
)

// entryName is the name of the gateway in the files of hosts.
const entryName = "gateway"

//go:embed page.html
var pageText string

//go:embed style.css
var style string

var page = template.Must(template.New("page").Parse(pageText))

// policy allows the style of the page by its digest, and nothing else.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// IsFor reports whether a request comes from a browser that opens a page, and not from an
// MCP client: clients name event streams in Accept, or a session.
func IsFor(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || len(r.Header["Mcp-Session-Id"]) > 0 {
		return false
	}
	accept := strings.ToLower(strings.Join(r.Header["Accept"], ","))
	return strings.Contains(accept, "text/html") && !strings.Contains(accept, "text/event-stream")
}

// host is a host on the page.
type host struct {
	Name, Title, Look, Snippet string
	Places                     []place
}

// place is where a host's file is on a system. The first place of a host has no system: it is the usual one.
type place struct{ System, File string }

// Credentials say which of a client the gateway accepts. Without any it demands none.
type Credentials struct {
	Keys   bool // API keys
	Tokens bool // tokens of issuers, to which the gateway leads a client (RFC 9728)
}

// Page serves the page about a gateway at this URL. The caller has checked the Host of the
// request if the URL is made of it.
func Page(w http.ResponseWriter, r *http.Request, url string, c Credentials) {
	var b bytes.Buffer
	hosts, others := hostsFor(url, c.Keys)
	err := page.Execute(&b, map[string]any{
		"Style": template.CSS(style), "URL": url, "Credentials": c, "Hosts": hosts, "CommandsOnly": others,
	})
	if err != nil { // only a mistake in the template can cause it
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Add("Vary", "Accept")
	if r.Method != http.MethodHead {
		_, _ = w.Write(b.Bytes()) // the browser may have disconnected
	}
}

// hostsFor returns the hosts that take a URL, with what belongs into their files, and the
// others. Hosts do not ask their user for a key: with keys it has its place.
func hostsFor(url string, keys bool) (hosts, others []host) {
	for _, h := range hostconfig.Hosts() {
		if !h.TakesURL() {
			others = append(others, host{Name: h.Name, Title: h.Title})
			continue
		}
		snippet := func() ([]byte, error) { return h.Snippet(entryName, hostconfig.Entry{URL: url}) }
		if keys {
			snippet = func() ([]byte, error) { return h.SnippetWithKey(entryName, url) }
		}
		text, err := snippet()
		if err != nil {
			continue // a URL that the host's language cannot hold
		}
		hosts = append(hosts, host{Name: h.Name, Title: h.Title, Places: placesOf(h), Look: h.Look, Snippet: strings.TrimSpace(string(text))})
	}
	return hosts, others
}

// placesOf returns where a host's file is: on Linux, and on the systems where it is elsewhere.
func placesOf(h hostconfig.Host) []place {
	var places []place
	for _, system := range []struct{ name, os string }{{"", "linux"}, {"macOS", "darwin"}, {"Windows", "windows"}} {
		m := hostconfig.Machine{OS: system.os, Home: "~", Env: func(name string) string {
			if name == "APPDATA" {
				return "%APPDATA%"
			}
			return ""
		}}
		file, err := h.File(m)
		if err != nil || len(places) > 0 && file == places[0].File {
			continue
		}
		if system.os == "windows" {
			file = strings.ReplaceAll(file, "/", `\`)
		}
		places = append(places, place{system.name, file})
	}
	return places
}
