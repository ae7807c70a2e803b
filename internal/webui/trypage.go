package webui

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/webui/jsontext"
	"mcpgateway/internal/webui/schemaform"
	"mcpgateway/internal/wire"
)

// tryRunPage shows one try: how far it is, its questions, and its end.
var tryRunPage = &page{
	path: "/try/run", name: "tryrun", title: "Try it", data: (*Console).tryRun, hidden: "catalog", every: 400 * time.Millisecond,
	policy: contentPolicy + "; frame-src 'self'; media-src 'self'",
}

// tryRunView has the data of the page of a try.
type tryRunView struct {
	ID, Kind, Name, Who, Profile, Arguments string
	Began                                   time.Time
	Took                                    float64
	Over                                    bool
	Progress                                tryProgress
	Lines                                   []tryLine
	Dropped                                 int
	Ask                                     *askView
	Waiting                                 int // questions after this one
	Problem                                 string
	Code                                    int64 // of the error, 0 for none
	Data                                    string
	IsError                                 bool
	Blocks                                  []block
	More                                    bool
	Structured                              *cell
	Longer                                  bool // the structured result
	Raw                                     string
	Cut                                     bool
	Again, Back, From                       string
	Part, JSON                              string // addresses
	As, ProfileID                           string
	AppURI                                  string // the app of the tool
	App                                     *appView
}

// askView is a question to the person.
type askView struct {
	ID, Message string
	Form        *schemaform.Form
	JSON        string
	Wrong       bool
	URL, Host   string // of an address to open
	Link        bool   // a browser may open it
}

// tryFor returns the try that a request names, nil if there is none of this session.
func (c *Console) tryFor(r *http.Request) *try { return c.tries.of(c.ownerOf(r), r.FormValue("id")) }

// outcome returns the result of a try, nil while there is none.
func (t *try) outcome() wire.Raw {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.result
}

func (t *try) href() string { return tryRunPath + "?id=" + url.QueryEscape(t.id) }

func (c *Console) tryRun(r *http.Request) (any, error) {
	t := c.tryFor(r)
	if t == nil {
		return nil, notFoundError("There is no such try now. The console keeps a try for half an hour, and for your login alone.")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	who := t.viewpoint.who
	v := &tryRunView{
		ID: t.id, Kind: t.kind.String(), Name: t.name, Who: who.Subject, Profile: who.Profile, As: t.viewpoint.As, ProfileID: t.viewpoint.Profile,
		Began: t.began, Over: !t.ended.IsZero(), Progress: t.progress, Lines: t.lines[:len(t.lines):len(t.lines)], Dropped: t.dropped,
		Problem: t.over, Part: Prefix + "/try/part?id=" + t.id + "&n=", JSON: Prefix + "/try/result?id=" + t.id,
	}
	f := filter{kind: t.kind, Kind: v.Kind, viewpoint: t.viewpoint}
	if t.arguments != nil {
		v.Arguments = clip(jsontext.Editable(t.arguments), maxBlockText)
	}
	again := map[string]string{"name": t.name}
	if len(t.arguments) < 2<<10 {
		again["args"] = string(t.arguments)
	}
	v.Again, v.Back = tryPath+f.query(again), itemPath+f.query(map[string]string{"name": t.name})
	if t.from != "" {
		v.From = tryRunPath + "?id=" + url.QueryEscape(t.from)
	}
	if len(t.asks) > 0 {
		v.Ask, v.Waiting = t.asks[0].view(), len(t.asks)-1
	}
	if v.Over {
		v.Took = t.ended.Sub(t.began).Seconds()
		t.show(v)
		c.showApp(v, t, r)
	}
	return v, nil
}

// show adds the end of a try. The caller holds mu.
func (t *try) show(v *tryRunView) {
	if t.err != nil {
		v.Problem, v.Code = t.err.Message, t.err.Code
		if t.err.Data != nil {
			v.Data, _ = jsontext.Indented(t.err.Data)
		}
	}
	if t.result == nil {
		return
	}
	result := valueOf(t.result)
	v.IsError = t.kind == call.Tool && result.Get("isError").Bool()
	v.Blocks, v.More = blocksOf(t.kind, result)
	if structured := result.Get("structuredContent"); structured.Exists() {
		table, longer := tableOf(structured)
		v.Structured, v.Longer = &table, longer
	}
	v.Raw, v.Cut = jsontext.Indented(t.result)
}

// showApp adds the app that is in the result, or belongs to the tool.
func (c *Console) showApp(v *tryRunView, t *try, r *http.Request) {
	if t.kind == call.Tool {
		if e, err := c.entryFor(&filter{kind: t.kind, Kind: v.Kind, viewpoint: t.viewpoint}, t.name); err == nil {
			meta := valueOf(e.Raw).Get("_meta")
			v.AppURI = cmp.Or(meta.Get("ui", "resourceUri").Str(), meta.Get("ui/resourceUri").Str())
		}
		return
	}
	if v.App = appIn(t.kind, valueOf(t.result), r.Host); v.App == nil {
		return
	}
	v.App.Open = t.href() + "&app=open#app"
	if r.URL.Query().Get("app") == "open" {
		v.App.Src = Prefix + "/try/app?id=" + t.id
		if from := c.tries.of(t.owner, t.from); from != nil {
			v.App.Data = Prefix + "/try/result?id=" + from.id
		}
	}
}

// askPrefix begins the names of the fields of an answer.
const askPrefix = "a"

// view returns the question for a person.
func (a *tryAsk) view() *askView {
	params := valueOf(a.params)
	v := &askView{ID: a.id, Message: clip(params.Get("message").Str(), maxBlockText), Wrong: a.wrong}
	if params.Get("mode").IsString("url") {
		v.URL = clip(params.Get("url").Str(), 8<<10)
		if u, err := url.Parse(params.Get("url").Str()); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" {
			v.Host, v.Link = u.Host, true
		}
		return v
	}
	v.Form, v.JSON = schemaform.New(askPrefix, params.Get("requestedSchema"), a.posted), strings.ReplaceAll(a.posted.Get("args"), "\r\n", "\n")
	if a.wrong && v.Form.Root != nil {
		v.Form.Value() // marks the fields
	}
	return v
}

var (
	tryAnswerAction = &action{path: "/try/answer", name: "try: answer", logged: []string{"id", "do"}, do: (*Console).answerTry}
	tryCancelAction = &action{path: "/try/cancel", name: "try: cancel", logged: []string{"id"}, do: (*Console).cancelTry}
)

// answerTry gives a person's answer to a question, or changes the form in which they write it.
func (c *Console) answerTry(w http.ResponseWriter, r *http.Request) {
	t := c.tryFor(r)
	if t == nil {
		c.fail(w, r, http.StatusNotFound, "There is no such try now.")
		return
	}
	id := r.PostForm.Get("ask")
	switch do := r.PostForm.Get("do"); do {
	case "decline", "cancel":
		t.answer(id, wire.SetMember(wire.Raw(`{}`), "action", wire.String(do)))
	case "accept":
		t.accept(id, r.PostForm)
	default:
		t.keep(id, schemaform.Rearranged(r.PostForm), false)
	}
	http.Redirect(w, r, t.href(), http.StatusSeeOther)
}

// question returns the params of a question, nil if it waits no longer.
func (t *try) question(id string) wire.Raw {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.asks {
		if a.id == id {
			return a.params
		}
	}
	return nil
}

// accept answers a question with what a person has filled in, if that is right.
func (t *try) accept(id string, posted url.Values) {
	params := valueOf(t.question(id))
	if !params.Exists() {
		return
	}
	answer := wire.Raw(`{"action":"accept"}`)
	if !params.Get("mode").IsString("url") {
		var content wire.Raw
		var ok bool
		if form := schemaform.New(askPrefix, params.Get("requestedSchema"), posted); form.Root != nil {
			content, ok = form.Value()
		} else {
			content, ok = argumentsIn(strings.TrimSpace(posted.Get("args")))
		}
		if !ok {
			t.keep(id, posted, true)
			return
		}
		answer = wire.SetMember(answer, "content", content)
	}
	t.answer(id, answer)
}

func (c *Console) cancelTry(w http.ResponseWriter, r *http.Request) {
	t := c.tryFor(r)
	if t == nil {
		c.fail(w, r, http.StatusNotFound, "There is no such try now.")
		return
	}
	t.cancel()
	http.Redirect(w, r, t.href(), http.StatusSeeOther)
}

// servePart serves the bytes of a part of a result. A browser shows images and audio, and saves everything else.
func (c *Console) servePart(w http.ResponseWriter, r *http.Request) {
	t := c.tryFor(r)
	if t == nil {
		http.NotFound(w, r)
		return
	}
	blocks, _ := blocksOf(t.kind, valueOf(t.outcome()))
	n, err := strconv.Atoi(r.URL.Query().Get("n"))
	if err != nil || n < 0 || n >= len(blocks) || blocks[n].Part == "" {
		http.NotFound(w, r)
		return
	}
	data, contentType, err := blocks[n].bytesOf()
	if err != nil {
		http.Error(w, "the server did not send base64", http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	if blocks[n].Show == "" {
		w.Header().Set("Content-Disposition", `attachment; filename="part-`+strconv.Itoa(n)+`.bin"`)
	}
	_, _ = w.Write(data) // the browser may have disconnected
}

// serveResult serves the whole result of a try with its arguments, as JSON.
func (c *Console) serveResult(w http.ResponseWriter, r *http.Request) {
	t := c.tryFor(r)
	if t == nil || t.outcome() == nil {
		http.NotFound(w, r)
		return
	}
	arguments := t.arguments
	if arguments == nil {
		arguments = wire.Raw(`{}`)
	}
	out := wire.SetMember(wire.SetMember(wire.Raw(`{}`), "name", wire.String(t.name)), "arguments", arguments)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="result.json"`)
	_, _ = w.Write(wire.SetMember(out, "result", t.outcome())) // the browser may have disconnected
}
