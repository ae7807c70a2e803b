package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

const pageFile = "page.json" // the page of a list as a file

// pages describes a path on which clients fetch the first page of the tools of an
// upstream, or the same bytes from a server of files.
type pages struct {
	Via   string // viaGateway or pathFiles
	Tools int
	Gzip  bool
}

// pathFiles is the path to http.FileServer.
const pathFiles = "file server"

func (p pages) path(name string) path { return path{Name: name, Start: p.start, Via: p.Via} }

func (p pages) start(ctx context.Context, s *stage) (measure, error) {
	pid, t, err := p.serve(ctx, s)
	if err != nil {
		return nil, err
	}
	l := s.load
	l.Clients = 16
	return func(ctx context.Context) (sample, error) { return l.run(ctx, pid, p.opener(t)) }, nil
}

// serve starts the gateway, or a server of the page that a gateway serves.
func (p pages) serve(ctx context.Context, s *stage) (pid int, t *target, err error) {
	upstream, err := s.role(ctx, role{Kind: roleUpstream, Tools: p.Tools})
	if err != nil {
		return 0, nil, err
	}
	config := newGatewayConfig(s.newFile("gateway"))
	config.addUpstream(gatewayUpstream, upstream.URL, eraLegacy)
	g, err := s.startGateway(ctx, config)
	if err != nil {
		return 0, nil, err
	}
	t = &target{URL: g.URL, Era: eraLegacy}
	if p.Via == viaGateway {
		return g.PID, t, nil
	}
	dir := s.newFile("files")
	if err := savePage(ctx, t, dir); err != nil {
		return 0, nil, err
	}
	files, err := s.role(ctx, role{Kind: roleFiles, Dir: dir, Gzip: p.Gzip})
	if err != nil {
		return 0, nil, err
	}
	t.URL = strings.TrimSuffix(files.URL, "mcp") + pageFile
	return files.PID, t, nil
}

// savePage stores a page that the gateway serves in a new folder, plain and
// compressed.
func savePage(ctx context.Context, t *target, dir string) error {
	c, err := pages{Via: viaGateway}.open(ctx, t, 0)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.call(); err != nil {
		return err
	}
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	w.Write(c.plain)
	return errors.Join(w.Close(), os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(dir, pageFile), c.plain, 0o600),
		os.WriteFile(filepath.Join(dir, pageFile+".gz"), compressed.Bytes(), 0o600))
}

// pageClient fetches the same page again and again, always with the same id, so
// that all answers are equal.
type pageClient struct {
	*connection
	request  []byte
	gzip     bool
	previous []byte // the last answer that was decoded
	plain    []byte // the same, not compressed
}

// opener returns the opener of clients of a target.
func (p pages) opener(t *target) opener {
	return func(ctx context.Context, number int) (caller, error) {
		c, err := p.open(ctx, t, number)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
}

// open opens a client: of a gateway with a session, of a server of files without.
func (p pages) open(ctx context.Context, t *target, number int) (*pageClient, error) {
	conn, err := connect(ctx, t, number, 1<<16)
	if err != nil {
		return nil, err
	}
	c := &pageClient{connection: conn, gzip: p.Gzip}
	if p.Gzip {
		c.head += "Accept-Encoding: gzip\r\n"
	}
	if p.Via != viaGateway {
		c.request = []byte("GET" + strings.TrimPrefix(c.head, "POST") + "\r\n")
		return c, nil
	}
	if err := c.openSession(); err != nil {
		c.close()
		return nil, err
	}
	c.request = c.post(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
	return c, nil
}

// call fetches the page. An answer that differs from the previous one is decoded
// and checked.
func (c *pageClient) call() error {
	body, header, err := c.exchange(c.request, http.StatusOK)
	if err != nil || c.previous != nil && bytes.Equal(body, c.previous) {
		return err
	}
	plain := body
	switch encoding := header.Get("Content-Encoding"); {
	case encoding == "gzip" && c.gzip:
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return fmt.Errorf("wrong page: %w", err)
		}
		if plain, err = io.ReadAll(r); err != nil {
			return fmt.Errorf("wrong page: %w", err)
		}
	case encoding != "" || c.gzip:
		return fmt.Errorf("the page has the encoding %q, want gzip: %t", encoding, c.gzip)
	}
	var page struct {
		ID     int `json:"id"`
		Result struct {
			Tools []struct {
				Name        string          `json:"name"`
				InputSchema json.RawMessage `json:"inputSchema"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal(plain, &page); err != nil || page.ID != 7 || len(page.Result.Tools) < 2 {
		return fmt.Errorf("wrong page: id %d, %d tools, %v: %.200s", page.ID, len(page.Result.Tools), err, plain)
	}
	c.previous, c.plain = bytes.Clone(body), bytes.Clone(plain)
	return nil
}

func listWorkload(tools int, compressed bool) workload {
	w := workload{
		Name:  "list",
		About: fmt.Sprintf("16 legacy clients fetch the first page of a list of %d tools, or the same bytes from http.FileServer.", tools),
		Paths: []path{
			pages{Via: pathFiles, Tools: tools, Gzip: compressed}.path(pathFiles),
			pages{Via: viaGateway, Tools: tools, Gzip: compressed}.path(viaGateway),
		},
		Ratios: []ratio{
			{Metric: perSecond, Of: viaGateway, To: pathFiles, AtLeast: 0.8, Requirement: 3},
			{Metric: cpu, Of: viaGateway, To: pathFiles},
			{Metric: p99, Of: viaGateway, To: pathFiles},
		},
	}
	if compressed {
		w.Name += "-gzip"
		w.About = fmt.Sprintf("16 legacy clients that accept gzip fetch the first page of a list of %d tools, or a file with the same content that is compressed beforehand.", tools)
	}
	return w
}
