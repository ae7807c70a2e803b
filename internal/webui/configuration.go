package webui

import (
	"net/http"
	"strings"

	"mcpgateway/internal/inspect"
)

var configurationPage = &page{path: "/configuration", name: "configuration", title: "Configuration", data: (*Console).configuration}

// configurationView has the data of the page.
type configurationView struct {
	File           string
	Query          string
	All            bool // defaults are shown too
	Groups         []settingGroup
	Warnings       []string
	Reload, Change *inspect.LastReload
	Errors         []string // of the last reload
}

// settingGroup are the keys below one first part, or of one upstream or profile.
type settingGroup struct {
	Name     string
	Settings []Setting
}

func (c *Console) configuration(r *http.Request) (any, error) {
	s, err := c.status()
	if err != nil {
		return nil, err
	}
	cfg, q := c.Config(), r.URL.Query()
	v := &configurationView{File: s.File, Query: strings.TrimSpace(q.Get("q")), All: q.Get("all") != "", Warnings: cfg.Warnings, Reload: s.Reload, Change: s.Change}
	if v.Reload != nil {
		for _, e := range v.Reload.Errors {
			v.Errors = append(v.Errors, e.String())
		}
	}
	words := strings.Fields(strings.ToLower(v.Query))
	for _, setting := range cfg.Settings {
		if setting.Default && !v.All || !containsAll(strings.ToLower(setting.Path+"\n"+setting.Value), words) {
			continue
		}
		name := groupOf(setting.Path)
		if n := len(v.Groups); n == 0 || v.Groups[n-1].Name != name {
			v.Groups = append(v.Groups, settingGroup{Name: name})
		}
		last := &v.Groups[len(v.Groups)-1]
		last.Settings = append(last.Settings, setting)
	}
	return v, nil
}

// containsAll reports whether a text has all words.
func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// groupOf returns the group of a key: its first part, and of upstreams and profiles the name.
func groupOf(path string) string {
	parts := strings.SplitN(path, ".", 3)
	switch {
	case len(parts) == 1:
		return "gateway"
	case len(parts) == 3 && (parts[0] == "upstreams" || parts[0] == "profiles"):
		return parts[0] + "." + parts[1]
	}
	name, _, _ := strings.Cut(parts[0], "[")
	return name
}
