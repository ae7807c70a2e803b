package webui

import (
	"net/http"
	"time"

	"mcpgateway/internal/inspect"
)

var overviewPage = &page{path: "/", name: "overview", title: "Overview", data: (*Console).overview}

// overview has the data of the first page.
type overview struct {
	*inspect.Status
	Attention []inspect.Attention
	Rates     inspect.Rates
	Spark     spark
	Upstreams []upstreamRow
	Up        int // upstreams that are ready, degraded or idle
	Minutes   int // that the charts cover
}

type upstreamRow struct {
	inspect.UpstreamStatus
	Rates inspect.Rates
	Spark spark
	Title string // what the server calls itself
	Total int    // items
	Shown int    // of Total: lists and overrides of the upstream hide the others
	Note  string // why it is not ready, if the list above does not say it
	// Stale is the last error if the upstream is well again.
	Stale string
}

func (c *Console) overview(*http.Request) (any, error) {
	s, err := c.status()
	if err != nil {
		return nil, err
	}
	o := &overview{
		Status: s, Attention: c.Inspector.Attention(s), Rates: c.History.Rates(""), Spark: sparkOf(c.History.Points("")),
		Minutes: int((inspect.HistoryLength * inspect.HistoryStep) / time.Minute),
	}
	for _, u := range s.Upstreams {
		row := upstreamRow{UpstreamStatus: u, Rates: c.History.Rates(u.Name), Spark: sparkOf(c.History.Points(u.Name)), Title: serverTitle(u.Server)}
		for kind, n := range u.Items {
			row.Total += n
			row.Shown += n - u.HiddenItems[kind]
		}
		switch u.State {
		case "ready", "degraded", "idle":
			o.Up++
		case "connecting":
			row.Note = u.Reason
		}
		if u.LastError != u.Reason {
			row.Stale = u.LastError
		}
		o.Upstreams = append(o.Upstreams, row)
	}
	return o, nil
}

// serverTitle returns the title or name of a serverInfo, with its version.
func serverTitle(info []byte) string {
	v := valueOf(info)
	title, _ := v.Get("title").Text()
	if title == "" {
		title, _ = v.Get("name").Text()
	}
	if version, _ := v.Get("version").Text(); version != "" {
		title += " " + version
	}
	return clip(title, 80)
}
