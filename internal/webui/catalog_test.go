package webui

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/webui/schemaform"
	"mcpgateway/internal/wire"
)

// get returns a page of the console, which must be harmless.
func get(t *testing.T, c *Console, path string, status int) string {
	t.Helper()
	w := request{path: path}.to(c)
	if w.Code != status {
		t.Fatalf("%s: %d, want %d: %s", path, w.Code, status, w.Body)
	}
	checkHarmless(t, path, w.Body.String())
	return w.Body.String()
}

func contains(t *testing.T, html string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q:\n%s", want, html)
		}
	}
}

func lacks(t *testing.T, html string, unwanted ...string) {
	t.Helper()
	for _, no := range unwanted {
		if strings.Contains(html, no) {
			t.Errorf("the page has %q:\n%s", no, html)
		}
	}
}

// The catalog lists items of each kind, and finds them by words.
func TestCatalog(t *testing.T) {
	c, _ := newTestConsole(t, Options{})
	page := get(t, c, "/ui/catalog", 200)
	contains(t, page, "files__read", "Read a file", "read-only", "destructive", "Writes …", "tools <span class=\"faint\">", "1 violation")
	found := get(t, c, "/ui/catalog?q=WRITES+much", 200)
	contains(t, found, "files__write", "1 to 1 of 1")
	lacks(t, found, "files__read<")
	contains(t, get(t, c, "/ui/catalog?q=nothing+at+all", 200), "Nothing matches.")
	contains(t, get(t, c, "/ui/catalog?upstream=web", 200), "Nothing matches.")
	contains(t, get(t, c, "/ui/catalog?kind=resource", 200), "file:///a")
	contains(t, get(t, c, "/ui/catalog?kind=template", 200), "file:///{path}")
	contains(t, get(t, c, "/ui/catalog?kind=prompt", 200), "files__ask")
	get(t, c, "/ui/catalog?kind=%3Cscript%3E&q="+url.QueryEscape(hostile)+"&as="+url.QueryEscape(hostile)+"&upstream="+url.QueryEscape(hostile), 200)
	contains(t, get(t, c, "/ui/catalog?profile=none", 404), "There is no profile none.")
}

// Items that the lists of their upstream hide are marked, and not counted as shown.
func TestHiddenItems(t *testing.T) {
	c, f := newTestConsole(t, Options{})
	page := get(t, c, "/ui/catalog", 200)
	contains(t, page, `tools <span class="faint">3<`)
	lacks(t, page, ">hidden<")
	lacks(t, get(t, c, "/ui/catalog/item?kind=tool&name=files__write", 200), "the lists of its upstream")
	f.policy = policy.MustNew(policy.Options{Default: policy.Allow, Upstreams: map[string]policy.Upstream{"files": {Tools: policy.Globs{Deny: []string{"write"}}}}})
	contains(t, get(t, c, "/ui/catalog?q=write", 200), ">hidden<", `tools <span class="faint">2 of 3<`, `prompts <span class="faint">1<`)
	lacks(t, get(t, c, "/ui/catalog?q=read", 200), ">hidden<")
	contains(t, get(t, c, "/ui/catalog/item?kind=tool&name=files__write", 200), "cannot see it: the lists of its upstream hide it")
	f.set([]inspect.Upstream{{Name: "files", State: connector.Ready, Items: [call.Kinds]int{call.Tool: 16, call.Prompt: 4}, Hidden: [call.Kinds]int{call.Tool: 14}}})
	contains(t, get(t, c, "/ui", 200), `title="4 prompts 16 tools (14 hidden) ">6 of 20<`)
}

// Each item has a page with its schema in words and its JSON.
func TestItem(t *testing.T) {
	c, _ := newTestConsole(t, Options{})
	page := get(t, c, "/ui/catalog/item?kind=tool&name=files__read", 200)
	contains(t, page, "string (uri)", "required", "&lt;i&gt;", "array of object", "leaf", "at least 3", "Structured result", "⟨U+202E⟩", `aria-current="page">Catalog`)
	contains(t, get(t, c, "/ui/catalog/item?kind=prompt&name=files__ask", 200), "topic")
	contains(t, get(t, c, "/ui/catalog/item?kind=resource&name=files%2Bfile:///a", 200), "text/html")
	get(t, c, "/ui/catalog/item?kind=template&name=files%2Bfile:///%7Bpath%7D", 200)
	contains(t, get(t, c, "/ui/catalog/item?kind=tool&name=gone", 404), "There is no tool gone now.")
}

// A principal is shown what policy says, and why.
func TestAsWhom(t *testing.T) {
	rules := []policy.Rule{{Name: "guests-read", Effect: policy.Deny, Who: policy.Who{Groups: []string{"guest"}}, What: policy.What{Tools: []string{"files__write"}}}}
	c, f := newTestConsole(t, Options{})
	c.Assume = func(p *call.Principal, profile string) (*call.Principal, []string, string, error) {
		if p.Subject == "nobody" {
			return nil, nil, "", errors.New("<b>nobody</b> cannot be")
		}
		refused := ""
		if p.Subject == "ci" {
			refused = "ci is pinned"
		}
		return p, []string{"about " + p.Subject + " in " + profile}, refused, nil
	}
	f.policy = policy.MustNew(policy.Options{Default: policy.Allow, Rules: rules})
	contains(t, get(t, c, "/ui/catalog?as=eve,group%3Dguest", 200), `deny">deny</span> <small class="faint">guests-read`, "allow", "about eve in default")
	lacks(t, get(t, c, "/ui/catalog?as=ann", 200), `deny">`)
	contains(t, get(t, c, "/ui/catalog?as=ci", 200), "about ci in default", "ci is pinned")
	contains(t, get(t, c, "/ui/policy?name=files__write&as=ci", 200), "refuses these credentials: ci is pinned.", "If they were accepted:")
	contains(t, get(t, c, "/ui/catalog?as=nobody", 200), "&lt;b&gt;nobody&lt;/b&gt; cannot be")
	contains(t, get(t, c, "/ui/catalog?as=%3Dx", 200), "must begin with the subject")
	contains(t, get(t, c, "/ui/catalog/item?kind=tool&name=files__write&as=eve,group%3Dguest&args=%7B%7D", 200), "by the rule <strong>guests-read</strong>", "<ol class=\"steps\">")
	contains(t, get(t, c, "/ui/catalog/item?kind=tool&name=files__write&as=eve&args=%5B", 200), "must be a JSON object")
	contains(t, get(t, c, "/ui/catalog/item?kind=template&name=files%2Bfile:///%7Bpath%7D&as=eve", 200), "by the rule")
}

// A long list has pages.
func TestCatalogPages(t *testing.T) {
	c, f := newTestConsole(t, Options{})
	f.tools = nil
	for i := range 5000 {
		f.tools = append(f.tools, wire.Raw(fmt.Sprintf(`{"name":"t%04d","inputSchema":{"type":"object"}}`, i)))
	}
	contains(t, get(t, c, "/ui/catalog", 200), "1 to 100 of 5\u202f000", `rel="next"`)
	page := get(t, c, "/ui/catalog?page=50&q=t", 200)
	contains(t, page, "4901 to 5000", `rel="prev"`)
	lacks(t, page, `rel="next"`)
	for _, wrong := range []string{"0", "-5", "51", "x", "99999999999999999999"} {
		get(t, c, "/ui/catalog?page="+wrong, 200)
	}
}

// Schemas that refer to themselves, nest or branch without end have an end on the page.
func TestSchemaBounds(t *testing.T) {
	branches := strings.Repeat(`{"$ref":"#/$defs/a"},`, 40)
	for name, schema := range map[string]string{
		"refers to itself": `{"$ref":"#"}`,
		"a circle":         `{"properties":{"x":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`,
		"recursive":        `{"properties":{"x":{"$ref":"#"}}}`,
		"branches":         `{"properties":{"x":{"$ref":"#/$defs/a"}},"$defs":{"a":{"anyOf":[` + strings.TrimSuffix(branches, ",") + `]}}}`,
		"wide":             `{"properties":{` + strings.TrimSuffix(strings.Repeat(`"x":{"type":"string"},`, 2000), ",") + `}}`,
		"wrong types":      `{"properties":[1],"required":"x","type":{},"enum":3,"items":[],"anyOf":{}}`,
		"no object":        `"x"`,
	} {
		v := schemaform.Describe("Arguments", valueOf([]byte(schema)), "none")
		if n := countFields(v.Fields); n > schemaform.MaxProperties {
			t.Errorf("%s: %d fields", name, n)
		}
		if (name == "branches" || name == "wide" || name == "recursive") && !v.More {
			t.Errorf("%s: it does not say that there is more", name)
		}
	}
}

func countFields(fields []schemaform.Property) int {
	n := len(fields)
	for _, f := range fields {
		n += countFields(f.Fields)
	}
	return n
}
