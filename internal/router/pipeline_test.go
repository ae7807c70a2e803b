package router

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// New routes do not change a running call: its notifications, questions and result use the
// routes with which it began.
func TestCallKeepsItsRoutes(t *testing.T) {
	const result = `{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"x","annotations":{"priority":1}}}]}`
	for _, tt := range []struct {
		name string
		to   wire.Revision
		caps string
		// created is the answer to the tool call if it creates a task, or "".
		created string
		request string // the upstream answers this request while routes are swapped
		answer  string
		want    string
	}{
		{"call", wire.Rev20251125, `{"elicitation":{}}`, "", wire.MethodToolsCall, result, `"annotations":{"priority":1}}}]`},
		{"result of a legacy task", wire.Rev20251125, `{"elicitation":{}}`, `{"task":{"taskId":"n1","status":"working"}}`, wire.MethodTasksResult, result, `"annotations":{"priority":1}}}]`},
		{"modern task", wire.Rev20260728, `{"elicitation":{},` + tasksDeclared[1:], `{"resultType":"task","taskId":"n1","status":"working"}`, wire.MethodTasksGet,
			`{"taskId":"n1","status":"completed","result":` + result + `}`, `"annotations":{"priority":1}}}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var h *testRouter
			swap := func() {
				next := *h.Routes()
				next.Bridge = BridgeSettings{Unlabeled: true, AskTimeout: time.Nanosecond}
				src := filesSource(t)
				next.Table = catalog.Build(catalog.Options{Enrich: true, Policy: policy.MustNew(policy.Options{
					Default: policy.Allow, Upstreams: map[string]policy.Upstream{"files": {Resources: policy.Globs{Deny: []string{"*"}}}},
				})}, []catalog.Source{src})
				next.Upstreams = map[string]Upstream{"files": answers(`{}`)}
				h.Swap(&next)
			}
			client := &recorder{}
			up := &fakeUpstream{}
			up.answer = func(ctx context.Context, c *call.Call) (call.Result, error) {
				if c.Method != tt.request {
					return call.Result{Raw: wire.Raw(tt.created), Revision: tt.to}, nil
				}
				swap()
				c.Back.Notify(wire.NoteResourceUpdated, wire.Raw(`{"uri":"file:///a"}`))
				if tt.to.Era() == wire.EraLegacy {
					if _, err := c.Back.Ask(ctx, wire.MethodElicit, wire.Raw(`{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`)); err != nil {
						t.Errorf("asking: %v", err)
					}
				}
				return call.Result{Raw: wire.Raw(tt.answer), Revision: tt.to}, nil
			}
			src := filesSource(t)
			src.Revision = tt.to
			src.Capabilities = wire.Raw(legacyTasks)
			if tt.to.Era() == wire.EraModern {
				src.Capabilities = wire.Raw(modernTasks)
			}
			h = newTestRouter(t, up, src)
			params := `{"name":"files__read"}`
			if tt.created != "" && tt.to.Era() == wire.EraLegacy {
				params = `{"name":"files__read","task":{}}`
			}
			c := callOf(tt.to, tt.caps, params, client)
			res, err := h.Handle(t.Context(), c)
			if err == nil && tt.created != "" {
				v := wire.ValueOf(res.Raw)
				id := v.Get("taskId").Str() + v.Get("task", "taskId").Str()
				d := callOf(tt.to, tt.caps, `{"taskId":"`+id+`"}`, client)
				d.Method = tt.request
				res, err = h.Handle(t.Context(), d)
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(client.notes) != 1 {
				t.Errorf("the client received %q, want the update that it may see", client.notes)
			}
			for _, asked := range client.asks {
				if !strings.Contains(asked, `"files: Sure?"`) {
					t.Errorf("asked %s, want the name of the upstream", asked)
				}
			}
			if got := string(res.Raw); strings.Count(got, `"annotations"`) != 1 || !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want a result without enrichment", got)
			}
		})
	}
}

// The routes with which a call began determine the lifetime of a round's state.
func TestRoundKeepsItsLifetime(t *testing.T) {
	var h *testRouter
	up := &fakeUpstream{answer: func(context.Context, *call.Call) (call.Result, error) {
		next := *h.Routes()
		next.Bridge.StateTTL = time.Nanosecond
		h.Swap(&next)
		return call.Result{Raw: wire.Raw(`{"resultType":"input_required","requestState":"s"}`), Revision: wire.Rev20260728}, nil
	}}
	h = newTestRouter(t, up, filesSource(t))
	res, err := h.Handle(t.Context(), callOf(wire.Rev20260728, `{}`, `{"name":"files__read"}`, &recorder{}))
	if err != nil {
		t.Fatal(err)
	}
	st, err := h.sealer.Open(wire.ValueOf(res.Raw).Get("requestState").Str(), bridge.BindingOf(callOf(wire.Rev20260728, `{}`, `{"name":"files__read"}`, nil)), time.Now())
	if err != nil || time.Until(st.Expires) < time.Hour {
		t.Errorf("the state expires at %v, %v", st.Expires, err)
	}
}

// The package documentation shows the stages in their order.
func TestDocShowsThePipeline(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var request, result []string
	for _, s := range callStages {
		request = append(request, s.name)
	}
	for _, s := range resultStages {
		result = append(result, s.name)
	}
	for _, stages := range [][]string{request, result} {
		if line := "//\t" + strings.Join(stages, " ▶ ") + "\n"; !strings.Contains(string(doc), line) {
			t.Errorf("doc.go lacks the line %s", line)
		}
	}
}
