package webui

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"mcpgateway/internal/inspect"
)

var callsPage = &page{path: "/calls", name: "calls", title: "Calls", data: (*Console).calls}

// callRows is how many calls the page shows.
const callRows = 100

// callsView has the data of the page.
type callsView struct {
	inspect.CallsTaken
	Rows                     []callRow
	Query, Upstream, Outcome string
	Filtered                 bool
	Upstreams, Outcomes      []string
}

type callRow struct {
	inspect.Call
	Took   string
	Stages []stageRow
	Href   string // of the item, "" if it has no page
}

type stageRow struct{ Stage, Took string }

// outcomes are the choices of the filter. The first two are sums of others.
var outcomes = []string{"failed", "ok", "tool_error", "error", "refused", "unavailable", "cancelled", "limited", "input_required", "task", "url_required", "unconfirmed"}

func (c *Console) calls(r *http.Request) (any, error) {
	q := r.URL.Query()
	v := &callsView{Query: strings.TrimSpace(q.Get("q")), Upstream: q.Get("upstream"), Outcome: q.Get("outcome"), Outcomes: outcomes}
	v.Filtered = v.Query != "" || v.Upstream != "" || v.Outcome != ""
	for _, u := range c.Inspector.Upstreams() {
		v.Upstreams = append(v.Upstreams, u.Name)
	}
	words := strings.Fields(strings.ToLower(v.Query))
	v.CallsTaken = c.Calls.Look(time.Now(), callRows, func(of *inspect.Call) bool { return v.selects(of, words) })
	for _, of := range v.Calls {
		row := callRow{Call: of, Took: seconds(of.Duration.Seconds())}
		for _, s := range of.Stages {
			row.Stages = append(row.Stages, stageRow{s.Stage, seconds(s.Spent.Seconds())})
		}
		if kind := kindOfMethod[of.Method]; kind != "" && of.Item != "" && of.Upstream != "" {
			row.Href = Prefix + "/catalog/item?" + url.Values{"kind": {kind}, "name": {of.Item}}.Encode()
		}
		v.Rows = append(v.Rows, row)
	}
	return v, nil
}

// kindOfMethod has the kinds of items by the methods that use them by their names.
var kindOfMethod = map[string]string{"tools/call": "tool", "prompts/get": "prompt"}

// selects reports whether the filters let a call through.
func (v *callsView) selects(c *inspect.Call, words []string) bool {
	switch {
	case v.Upstream != "" && c.Upstream != v.Upstream:
		return false
	case v.Outcome == "failed" && !c.Failed():
		return false
	case v.Outcome != "" && v.Outcome != "failed" && c.Outcome != v.Outcome:
		return false
	}
	if len(words) == 0 {
		return true
	}
	text := strings.ToLower(strings.Join([]string{c.Method, c.Item, c.Upstream, c.Principal, c.Rule, c.Request, c.Client, c.Profile, c.Reason, c.Trace}, "\n"))
	return containsAll(text, words)
}
