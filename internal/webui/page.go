package webui

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"
)

// page is one page of the console.
type page struct {
	path  string // below Prefix
	name  string // of templates/NAME.html
	title string
	// data returns what the template shows. An error is shown in the place of the page.
	data func(c *Console, r *http.Request) (any, error)
	// every is how often its regions are rendered again, 0 for refreshEvery.
	every time.Duration
	// policy is its Content Security Policy, "" for contentPolicy.
	policy string
	// posts says that the page also answers a form that is posted.
	posts bool
	// hidden pages are not in the navigation. They belong to the page of this name.
	hidden string
}

// pages are all pages that the router serves, in the order of the navigation.
var pages = []*page{overviewPage, catalogPage, itemPage, tryPage, tryRunPage, callsPage, sessionsPage, approvePage, grantsPage, testerPage, configurationPage}

func (p *page) href() string {
	if p.path == "/" {
		return Prefix
	}
	return Prefix + p.path
}

//go:embed templates
var templateFiles embed.FS

// compiled is a page that can be rendered.
type compiled struct {
	template *template.Template
	regions  []string // the names of its live regions
}

// livePrefix begins the names of the templates of live regions.
const livePrefix = "live-"

var templates = func() map[string]*compiled {
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	all := make(map[string]*compiled)
	for _, p := range append(slices.Clone(pages), loginPage, enteredPage, errorPage, mePage) {
		t := template.Must(template.Must(layout.Clone()).ParseFS(templateFiles, "templates/"+p.name+".html"))
		made := &compiled{template: t}
		for _, of := range t.Templates() {
			if region, ok := strings.CutPrefix(of.Name(), livePrefix); ok {
				made.regions = append(made.regions, region)
			}
		}
		slices.Sort(made.regions)
		all[p.name] = made
	}
	return all
}()

// view is the data of templates.
type view struct {
	Title   string
	Data    any
	Nav     []navEntry
	Base    string // below which the forms and files of every page are
	Here    string // the path and query of the page
	Theme   string
	Themes  []string
	CSRF    string
	Live    bool // the page has regions that change
	Private bool // there is a session to end
	Actions bool // the forms of actions are served
	Now     time.Time
}

type navEntry struct {
	Title, Href string
	Current     bool
}

// viewOf returns a view of a page for a request to it.
func (c *Console) viewOf(r *http.Request, p *page, data any) *view {
	v := &view{
		Title: p.title, Data: data, Here: r.URL.RequestURI(), Theme: themeOf(r), Themes: themes, CSRF: c.formToken(r),
		Live: len(templates[p.name].regions) > 0, Private: c.Token != "" && p != loginPage, Actions: c.Actions, Now: time.Now(), Base: c.base,
	}
	if p == loginPage || p == enteredPage {
		return v
	}
	if who := visitorOf(r); c.Public != nil {
		v.Private = who != nil && who.session != ""
		v.Nav = append(v.Nav, navEntry{mePage.title, MePrefix, p == mePage})
		if who == nil || !c.opensFor(who.Principal) {
			return v
		}
	}
	for _, of := range pages {
		if of.hidden == "" {
			v.Nav = append(v.Nav, navEntry{of.title, of.href(), of == p || of.name == p.hidden})
		}
	}
	return v
}

func (c *Console) servePage(w http.ResponseWriter, r *http.Request, p *page) {
	data, err := p.data(c, r)
	if err != nil {
		status := http.StatusInternalServerError
		if _, missing := errors.AsType[notFoundError](err); missing {
			status = http.StatusNotFound
		}
		c.fail(w, r, status, err.Error())
		return
	}
	c.render(w, r, http.StatusOK, p, data)
}

// notFoundError says that a page has nothing to show under its query.
type notFoundError string

func (e notFoundError) Error() string { return string(e) }

var errorPage = &page{name: "error", title: "Error"}

// fail shows an error to a person.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, status int, message string) {
	c.render(w, r, status, errorPage, message)
}

// render writes a page.
func (c *Console) render(w http.ResponseWriter, r *http.Request, status int, p *page, data any) {
	var b bytes.Buffer
	if err := templates[p.name].template.Execute(&b, c.viewOf(r, p, data)); err != nil { // only a mistake in the template can cause it
		http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if p.policy != "" {
		w.Header().Set("Content-Security-Policy", p.policy)
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(visible(b.Bytes())) // the browser may have disconnected
	}
}
