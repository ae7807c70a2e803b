package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The size of the gateway whose console is measured, and the calls in a second beside it.
const (
	consoleUpstreams = 200
	consoleTools     = 25 // of each upstream
	consoleCalls     = 1000
	consoleDuration  = 10 * time.Second // of a measurement: how rarely a page that takes long is shown anew
)

// consolePages are the pages of the console that are fetched.
var consolePages = []struct{ name, path string }{
	{"overview", "/ui"},
	{"catalog", "/ui/catalog"},
	{"catalog, search", "/ui/catalog?q=number+tool_00020&upstream=up-150"},
	{"catalog, as somebody", "/ui/catalog?as=ann&page=20"},
	{"calls page", "/ui/calls"},
	{"sessions", "/ui/sessions"},
	{"configuration", "/ui/configuration?all=1"},
}

// consoleWorkload compares calls beside an open console with calls without one.
func consoleWorkload(scale int) workload {
	const closed, open = "console closed", "console open"
	upstreams := max(2, consoleUpstreams/scale)
	beside := func(pages ...string) calls {
		return calls{Size: 1 << 10, Every: 16 * time.Second / consoleCalls, Via: viaGateway, Duration: consoleDuration / time.Duration(scale),
			Change: func(ctx context.Context, s *stage, config *gatewayConfig, t *target) error {
				return manyUpstreams(ctx, s, config, upstreams)
			},
			Background: func(ctx context.Context, s *stage, g *gateway, _ *target) error {
				for _, p := range pages {
					if err := s.openConsole(ctx, g, p); err != nil {
						return err
					}
				}
				return nil
			},
		}
	}
	return workload{
		Name: "console",
		About: fmt.Sprintf("16 clients make %d calls a second together, each with 1 KiB of text, at a gateway with %d upstreams of %d tools. "+
			"On the path \"console open\", a browser has the pages Overview and Calls open. Both paths are measured at the same time.", consoleCalls, upstreams, consoleTools),
		Paths:    []path{beside().path(closed), beside("/ui", "/ui/calls").path(open)},
		Ratios:   []ratio{{Metric: cpu, Of: open, To: closed, AtMost: 1.03, Requirement: 9}, {Metric: p99, Of: open, To: closed}},
		Together: true,
	}
}

// pagesWorkload fetches the pages of the console.
func pagesWorkload(scale int) workload {
	upstreams := max(2, consoleUpstreams/scale)
	w := workload{
		Name:  "console-pages",
		About: fmt.Sprintf("A client fetches a page of the console again and again. The gateway has %d upstreams of %d tools.", upstreams, consoleTools),
	}
	var shown *gateway // whose pages are fetched; the first of their paths starts it in each round
	var round *shared
	for _, p := range consolePages {
		w.Paths = append(w.Paths, path{Name: p.name, Start: func(ctx context.Context, s *stage) (_ measure, err error) {
			if round != s.shared {
				config := newGatewayConfig(s.newFile("gateway"))
				if err := manyUpstreams(ctx, s, config, upstreams); err != nil {
					return nil, err
				}
				if shown, err = s.startGateway(ctx, config); err != nil {
					return nil, err
				}
				round = s.shared
			}
			return fetchPage(s.load, shown, p.path), nil
		}})
		w.Ratios = append(w.Ratios, ratio{Metric: p50, Of: p.name, AtMost: 100_000, Requirement: 9})
	}
	return w
}

// manyUpstreams adds upstreams that one process serves.
func manyUpstreams(ctx context.Context, s *stage, config *gatewayConfig, n int) error {
	upstream, err := s.role(ctx, role{Kind: roleUpstream, Tools: consoleTools - 1})
	if err != nil {
		return err
	}
	for i := range n {
		config.addUpstream("up-"+strconv.Itoa(i), upstream.URL, eraLegacy)
	}
	return nil
}

// openConsole reads the event stream of a page until the stage ends.
func (s *stage) openConsole(ctx context.Context, g *gateway, page string) error {
	ctx, stop := context.WithCancel(ctx)
	s.owned(closeFunc(func() error { stop(); return nil }))
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.Admin+"/ui/events?page="+url.QueryEscape(page), nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{}}).Do(r)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return fmt.Errorf("%s: %s", r.URL, resp.Status)
	}
	go func() {
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body) // until the stage ends
	}()
	return nil
}

// fetchPage returns the measurement of one client that fetches a page.
func fetchPage(l load, g *gateway, page string) measure {
	l.Clients = 1
	open := func(ctx context.Context, number int) (caller, error) {
		c, err := connect(ctx, &target{URL: g.Admin + page, Era: eraLegacy}, number, 1<<16)
		if err != nil {
			return nil, err
		}
		return &htmlClient{connection: c, request: []byte("GET" + strings.TrimPrefix(c.head, "POST") + "\r\n")}, nil
	}
	return func(ctx context.Context) (sample, error) { return l.run(ctx, g.PID, open) }
}

// htmlClient fetches a page of HTML.
type htmlClient struct {
	*connection
	request []byte
}

func (c *htmlClient) call() error {
	body, _, err := c.exchange(c.request, http.StatusOK)
	if err == nil && !strings.Contains(string(body), "</html>") {
		err = fmt.Errorf("wrong page: %.200s", body)
	}
	return err
}
