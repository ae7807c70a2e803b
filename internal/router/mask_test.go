package router

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// dialect is the way in which an upstream answers for a resource that it does not have.
type dialect struct {
	name     string
	read     func(uri string) (string, *wire.Error)
	metadata func(uri string) *wire.Error
	revision wire.Revision
}

func says(code int64, format string, data ...string) func(string) *wire.Error {
	return func(uri string) *wire.Error {
		e := &wire.Error{Code: code, Message: strings.ReplaceAll(format, "URI", uri)}
		if data != nil {
			e.Data = wire.Raw(strings.ReplaceAll(data[0], "URI", uri))
		}
		e.Raw = e.Append(nil)
		return e
	}
}

func failing(with func(string) *wire.Error) func(string) (string, *wire.Error) {
	return func(uri string) (string, *wire.Error) { return "", with(uri) }
}

// dialects has the answers of servers made with the known SDKs, and of some servers without an
// SDK.
var dialects = []dialect{
	{"Go", failing(says(-32002, "Resource not found", `{"uri":"URI"}`)), says(-32601, "method not found"), wire.Rev20251125},
	{"TypeScript", failing(says(-32602, "MCP error -32602: Resource URI not found")), says(-32601, "Method not found"), wire.Rev20251125},
	{"Python", failing(says(0, "Unknown resource: URI")), says(-32602, "Invalid request parameters", `""`), wire.Rev20250618},
	{"modern", failing(says(-32602, "Resource not found", `{"uri":"URI"}`)), says(-32601, "method not found"), wire.Rev20260728},
	{"a file system", failing(says(-32603, "ENOENT: no such file or directory, open 'URI'")), says(-32603, "unsupported"), wire.Rev20251125},
	{"an empty result", func(string) (string, *wire.Error) { return `{"contents":[]}`, nil }, says(-32601, "no"), wire.Rev20251125},
	{"the draft", failing(says(-32002, "gone: URI")), says(-32002, "gone: URI", `{"uri":"URI","x":1}`), wire.Rev20251125},
}

// dialectUpstream lists some of its resources and answers in its dialect.
type dialectUpstream struct {
	oneSession
	dialect
	has []string
	got []string
}

func (u *dialectUpstream) Do(_ context.Context, c *call.Call) (call.Result, error) {
	uri := wire.ValueOf(c.Params).Get("uri").Str()
	u.got = append(u.got, c.Method+" "+uri)
	draft := u.name == "the draft"
	there := slices.Contains(u.has, uri)
	var raw string
	var fault *wire.Error
	switch {
	case c.Method == wire.MethodComplete:
		raw = `{"completion":{"values":[]}}` // for every resource
	case c.Method == wire.MethodResourcesRead && there:
		raw = `{"contents":[{"uri":"` + uri + `","text":"x"}]}`
	case c.Method == wire.MethodResourcesRead:
		raw, fault = u.read(uri)
	case c.Method == wire.MethodResourcesMetadata && draft && there:
		raw = `{"resource":{"uri":"` + uri + `","name":"n"}}`
	case c.Method == wire.MethodResourcesMetadata:
		fault = u.metadata(uri)
	case c.Method == wire.MethodResourcesList && draft:
		raw = `{"resources":[]}`
	default:
		fault = says(-32601, "method not found")(uri)
	}
	if fault != nil {
		return call.Result{}, fault
	}
	return call.Result{Raw: wire.Raw(raw), Revision: u.revision}, nil
}

// Subscribe accepts any URI, like most servers.
func (u *dialectUpstream) Subscribe(_ context.Context, _ *call.Call, native string) (func(), error) {
	u.got = append(u.got, wire.MethodResourcesSubscribe+" "+native)
	return func() {}, nil
}

// dialectRouter returns a router whose upstream uses the dialect.
func dialectRouter(t *testing.T, d dialect, p *policy.Policy) (*Router, *dialectUpstream) {
	src := source(t, "files", nil)
	src.Revision, src.Capabilities = d.revision, wire.Raw(`{"resources":{"subscribe":true},"completions":{}}`)
	src.Items[call.Resource] = []wire.Raw{
		wire.Raw(`{"name":"a","uri":"file:///a"}`), wire.Raw(`{"name":"s","uri":"file:///secret/listed"}`), wire.Raw(`{"name":"b","uri":"file:///pub/b"}`),
	}
	src.Items[call.Template] = []wire.Raw{wire.Raw(`{"name":"any","uriTemplate":"file:///{+path}"}`)}
	u := &dialectUpstream{dialect: d, has: []string{"file:///a", "file:///pub/b", "file:///unlisted", "file:///secret/listed", "file:///secret/unlisted"}}
	started := make(chan struct{})
	close(started)
	return New(Options{Started: started, Logger: zap.NewNop(), Metrics: NewMetrics()}, &Routes{
		Table:     catalog.Build(catalog.Options{Policy: p, Enrich: true}, []catalog.Source{src}),
		Upstreams: map[string]Upstream{"files": u}, Subscribers: map[string]Subscriber{"files": u},
	}), u
}

// answerTo returns everything that a client gets: the bytes of the result or of the error.
func answerTo(r *Router, who *call.Principal, rev wire.Revision, method, uri string) string {
	text := string(wire.String(uri))
	c := &call.Call{ID: "r", Method: method, Principal: who, Back: &recorder{}, Client: &call.Client{Key: "c", Revision: rev}}
	if method == wire.MethodResourcesSubscribe {
		_, err := NewSubscriptions(r).Subscribe(context.Background(), c, uri, func(string, wire.Raw) {})
		return fullText(call.Result{Raw: wire.Raw(`{}`)}, err)
	}
	c.Params = wire.Raw(`{"uri":` + text + `}`)
	if method == wire.MethodComplete {
		c.Params = wire.Raw(`{"ref":{"type":"ref/resource","uri":` + text + `},"argument":{"name":"a","value":""}}`)
	}
	return fullText(r.Handle(context.Background(), c))
}

func fullText(res call.Result, err error) string {
	switch e := err.(type) {
	case nil:
		return string(res.Raw)
	case *wire.Error:
		return string(e.Append(nil))
	default:
		return fmt.Sprintf("%T %v", err, err)
	}
}

// A refused resource gets the same answer as a missing one, in both eras and by every method,
// for every dialect of the upstream. Allowed resources can still be read.
func TestRefusedLooksAbsentAtAnUpstream(t *testing.T) {
	p := policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{{Name: "secrets", Effect: policy.Deny, What: policy.What{Resources: []string{"*/secret/*"}}}}})
	methods := []string{wire.MethodResourcesRead, wire.MethodResourcesSubscribe, wire.MethodResourcesMetadata, wire.MethodResourcesList, wire.MethodComplete}
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			r, u := dialectRouter(t, d, p)
			for _, rev := range []wire.Revision{wire.Rev20241105, wire.Rev20251125, wire.Rev20260728} {
				code := `{"code":-32002,`
				if rev.Era() == wire.EraModern {
					code = `{"code":-32602,`
				}
				for _, method := range methods {
					without := func(uri string) string {
						text := answerTo(r, call.Anonymous, rev, method, uri)
						if !strings.Contains(text, uri) {
							t.Errorf("%s, %s %s: %s", rev, method, uri, text)
						}
						return strings.ReplaceAll(text, uri, "URI")
					}
					u.got = nil
					refused := without("files+file:///secret/listed")
					other := without("files+file:///secret/unlisted")
					if len(u.got) > 0 {
						t.Errorf("%s, %s: the upstream got %q", rev, method, u.got)
					}
					absent := without("files+file:///nothing/of/this/kind")
					if !strings.HasPrefix(refused, code) || refused != other || refused != absent {
						t.Errorf("%s, %s:\nrefused          %s\nrefused unlisted %s\nabsent           %s", rev, method, refused, other, absent)
					}
				}
				for _, method := range methods[:2] {
					for _, uri := range []string{"files+file:///a", "files+file:///unlisted"} {
						u.got = nil
						text := answerTo(r, call.Anonymous, rev, method, uri)
						unlisted := method == wire.MethodResourcesSubscribe && uri != "files+file:///a" // the router refuses it without a probe
						if strings.HasPrefix(text, code) != unlisted || unlisted && len(u.got) > 0 {
							t.Errorf("%s, %s %s: %s; the upstream got %q", rev, method, uri, text, u.got)
						}
					}
				}
				if d.name == "a file system" { // its error may mean the method or the resource
					continue
				}
				if text := answerTo(r, call.Anonymous, rev, wire.MethodResourcesMetadata, "files+file:///unlisted"); !strings.Contains(text, `"resource":{`) {
					t.Errorf("%s, metadata of an expanded template: %s", rev, text)
				}
				if text := answerTo(r, call.Anonymous, rev, wire.MethodResourcesList, "files+file:///unlisted"); !strings.Contains(text, `"resources":[]`) {
					t.Errorf("%s, children of an expanded template: %s", rev, text)
				}
			}
		})
	}
}

// If policy refuses nothing, the errors of upstreams for missing resources pass unchanged.
func TestErrorsForMissingResourcesPass(t *testing.T) {
	for _, d := range dialects[:5] {
		r, _ := dialectRouter(t, d, policy.MustNew(policy.Options{Default: policy.Allow}))
		const uri = "files+file:///nothing/of/this/kind"
		_, fault := d.read("file:///nothing/of/this/kind")
		want := strings.ReplaceAll(string(fault.Raw), `"uri":"file:`, `"uri":"files+file:`)
		if text := answerTo(r, call.Anonymous, wire.Rev20251125, wire.MethodResourcesRead, uri); text != want {
			t.Errorf("%s: %s, want %s", d.name, text, want)
		}
		if text := answerTo(r, call.Anonymous, wire.Rev20251125, wire.MethodResourcesSubscribe, uri); text != `{}` {
			t.Errorf("%s: subscribed: %s", d.name, text)
		}
	}
}

// An upstream's failure does not mean that a resource is missing.
func TestOtherErrorsPass(t *testing.T) {
	d := dialect{"broken", failing(says(-32603, "the disk is full")), says(-32601, "no"), wire.Rev20251125}
	p := policy.MustNew(policy.Options{Default: policy.Allow, Upstreams: map[string]policy.Upstream{"files": {Resources: policy.Globs{Deny: []string{"*/secret/*"}}}}})
	r, _ := dialectRouter(t, d, p)
	if text := answerTo(r, call.Anonymous, wire.Rev20251125, wire.MethodResourcesRead, "files+file:///x"); text != `{"code":-32603,"message":"the disk is full"}` {
		t.Error(text)
	}
}

// The probe for an unlisted resource asks no user, and makes no read that needs a consent.
func TestNoReadWithoutConsent(t *testing.T) {
	p := policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{
		{Name: "ask", Effect: policy.Confirm, What: policy.What{Resources: []string{"*"}}}, {Name: "secrets", Effect: policy.Deny, What: policy.What{Resources: []string{"*/secret/*"}}},
	}})
	r, u := dialectRouter(t, dialects[0], p)
	answerTo(r, call.Anonymous, wire.Rev20251125, wire.MethodResourcesMetadata, "files+file:///x")
	if slices.ContainsFunc(u.got, func(got string) bool { return strings.HasPrefix(got, wire.MethodResourcesRead) }) {
		t.Errorf("the upstream got %q", u.got)
	}
	u.got = nil
	if text := answerTo(r, call.Anonymous, wire.Rev20251125, wire.MethodResourcesSubscribe, "files+file:///x"); !strings.Contains(text, "not found") || len(u.got) > 0 {
		t.Errorf("subscribed: %s; the upstream got %q", text, u.got)
	}
}

// The audit distinguishes a refused resource from a missing one, and names the rule.
func TestAuditDistinguishesRefusedFromAbsent(t *testing.T) {
	p := policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{{Name: "secrets", Effect: policy.Deny, What: policy.What{Resources: []string{"*/secret/*"}}}}})
	r, _ := dialectRouter(t, dialects[0], p)
	lines := &auditLog{}
	r.audit = &Audit{To: lines}
	for uri, want := range map[string]string{
		"files+file:///secret/listed": "deny secrets", "files+file:///secret/unlisted": "deny secrets",
		"files+file:///none": "allow default", "none:x": "deny unknown",
	} {
		for _, method := range []string{wire.MethodResourcesRead, wire.MethodResourcesSubscribe, wire.MethodResourcesMetadata, wire.MethodResourcesList, wire.MethodComplete} {
			lines.text.Reset()
			answerTo(r, call.Anonymous, wire.Rev20251125, method, uri)
			first, _, _ := bytes.Cut(lines.text.Bytes(), []byte("\n"))
			var line struct{ Event, Effect, Rule, Item string }
			if err := json.Unmarshal(first, &line); err != nil || line.Event != "decision" || line.Item != uri || line.Effect+" "+line.Rule != want {
				t.Errorf("%s %s: %s %v, want %s", method, uri, first, err, want)
			}
		}
	}
}

type auditLog struct{ text bytes.Buffer }

func (l *auditLog) Before(line []byte) error { l.text.Write(line); return nil }
func (l *auditLog) After(line []byte)        { l.text.Write(line) }
