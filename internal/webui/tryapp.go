package webui

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/webui/jsontext"
	"mcpgateway/internal/wire"
)

// mimeApp is the type of the HTML of an MCP App (SEP-1865).
const mimeApp = "text/html;profile=mcp-app"

// appView is the app in the resource that a try has read.
type appView struct {
	Network []appAccess // what it may reach
	Refused []string    // what it asks for and does not get
	Open    string      // the address of the page with the frame
	Src     string      // of the frame, "" while nobody has opened it
	Data    string      // what the frame is told about, "" for nothing
	html    string
}

// appAccess is one kind of access to the network.
type appAccess struct {
	For     string
	Origins []string
}

// appAccesses are the members of _meta.ui.csp.
var appAccesses = []struct{ member, words string }{
	{"connectDomains", "sends to and reads from"}, {"resourceDomains", "loads scripts, styles, images and fonts from"},
	{"frameDomains", "shows pages of"}, {"baseUriDomains", "resolves addresses against"},
}

// appOrigin matches the origins that a server may allow its app. Any other text could end a directive and
// begin another one.
var appOrigin = regexp.MustCompile(`^(https?|wss?)://(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?(:[0-9]{1,5})?$`)

// maxOrigins bounds the origins of one directive.
const maxOrigins = 30

// isApp reports whether a type is that of an app. Its parameters may be spelled with spaces and in quotation marks.
func isApp(text string) bool {
	return mediaType(text) == "text/html" && strings.Contains(strings.NewReplacer(" ", "", `"`, "").Replace(strings.ToLower(text)), "profile=mcp-app")
}

// appIn returns the app in the result of a read, nil if there is none. host is the host of the console, which no app may reach.
func appIn(kind call.Kind, result wire.Value, host string) *appView {
	if kind == call.Tool || kind == call.Prompt {
		return nil
	}
	for c := range result.Get("contents").Elements() {
		if !isApp(c.Get("mimeType").Str()) {
			continue
		}
		v := &appView{html: c.Get("text").Str()}
		if blob := c.Get("blob").Str(); blob != "" {
			decoded, err := base64.StdEncoding.DecodeString(blob)
			if err != nil {
				return nil
			}
			v.html = string(decoded)
		}
		csp := c.Get("_meta", "ui", "csp")
		for _, a := range appAccesses {
			access := appAccess{For: a.words}
			for origin := range csp.Get(a.member).Elements() {
				text := origin.Str()
				_, at, _ := strings.Cut(text, "://")
				if !appOrigin.MatchString(text) || strings.EqualFold(at, host) || len(access.Origins) == maxOrigins {
					if len(v.Refused) < maxOrigins {
						v.Refused = append(v.Refused, clip(jsontext.Plain(origin), 200))
					}
					continue
				}
				access.Origins = append(access.Origins, text)
			}
			if access.Origins != nil {
				v.Network = append(v.Network, access)
			}
		}
		return v
	}
	return nil
}

// policy returns the Content Security Policy of the frame (SEP-1865, "Host Behavior"). It has no 'self': that would be the console.
func (v *appView) policy() string {
	allowed := make(map[string]string)
	for i, a := range appAccesses {
		for _, n := range v.Network {
			if n.For == a.words {
				allowed[appAccesses[i].member] = " " + strings.Join(n.Origins, " ")
			}
		}
	}
	or := func(member string) string {
		if origins := allowed[member]; origins != "" {
			return origins
		}
		return " 'none'"
	}
	static := allowed["resourceDomains"]
	return "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'" + static + "; style-src 'unsafe-inline'" + static +
		"; img-src data: blob:" + static + "; font-src data:" + static + "; media-src data: blob:" + static + "; connect-src" + or("connectDomains") +
		"; frame-src" + or("frameDomains") + "; base-uri" + or("baseUriDomains") + "; object-src 'none'; form-action 'none'; frame-ancestors 'self'"
}

// serveApp serves the document of the frame of an app. Its origin is none, also when somebody opens its address.
func (c *Console) serveApp(w http.ResponseWriter, r *http.Request) {
	t := c.tryFor(r)
	if t == nil {
		http.NotFound(w, r)
		return
	}
	v := appIn(t.kind, valueOf(t.outcome()), r.Host)
	if v == nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", v.policy())
	h.Set("X-Frame-Options", "SAMEORIGIN")
	h.Set("X-DNS-Prefetch-Control", "off")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(v.html)) // the browser may have disconnected
}
