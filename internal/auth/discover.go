package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"mcpgateway/internal/oauthmeta"
	"mcpgateway/internal/origin"
	"mcpgateway/internal/wire"
)

const (
	fetchTimeout = 5 * time.Second
	maxDocument  = 1 << 20
	maxRedirects = 3
)

// fetcher returns the client for documents of issuers: given, or else a new one. It keeps
// no idle connections, since fetches are rare.
func fetcher(given *http.Client) *http.Client {
	if given != nil {
		return given
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableKeepAlives = true
	t.MaxResponseHeaderBytes = 64 << 10
	return &http.Client{Transport: t, Timeout: fetchTimeout, CheckRedirect: sameHost}
}

// sameHost refuses redirects to other hosts: the configuration names the hosts.
func sameHost(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	if first := via[0].URL; r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
		return errors.New("the redirect leads to another host")
	}
	return nil
}

// safeURL requires TLS, except for this machine (2026-07-28,
// basic/authorization/security-considerations, "Communication Security").
func safeURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "":
		return fmt.Errorf("%s is not an https URL", s)
	case u.Scheme == "https", u.Scheme == "http" && origin.IsLoopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%s must be an https URL, unless it is on this machine", s)
}

// discovery finds the URL of an issuer's keys.
type discovery struct {
	issuer         string
	metadata, keys string // "": by discovery
	client         *http.Client
}

// find returns the URL of the issuer's keys.
func (d *discovery) find(ctx context.Context) (string, error) {
	if d.keys != "" {
		return d.keys, nil
	}
	meta, err := d.server(ctx)
	if err != nil {
		return "", err
	}
	return meta.JWKSURI, safeURL(meta.JWKSURI)
}

// server returns the metadata of the issuer.
func (d *discovery) server(ctx context.Context) (*oauthmeta.Server, error) {
	if d.metadata == "" {
		return oauthmeta.FindServer(ctx, d.issuer, d.fetch)
	}
	body, err := fetchDocument(ctx, d.client, d.metadata)
	if err != nil {
		return nil, err
	}
	return oauthmeta.ParseServer(d.issuer, wire.ValueOf(body))
}

// fetch implements [oauthmeta.Fetch].
func (d *discovery) fetch(ctx context.Context, at *url.URL) (oauthmeta.Document, error) {
	body, err := fetchDocument(ctx, d.client, at.String())
	var status statusError
	switch {
	case errors.As(err, &status):
		return oauthmeta.Document{Status: int(status)}, nil
	case errors.Is(err, errNotObject):
		return oauthmeta.Document{Status: http.StatusOK}, nil
	case err != nil:
		return oauthmeta.Document{}, err
	}
	return oauthmeta.Document{Status: http.StatusOK, Body: wire.ValueOf(body)}, nil
}

// statusError is an HTTP status other than 200.
type statusError int

// Error implements error.
func (e statusError) Error() string { return fmt.Sprintf("the answer has the status %d", int(e)) }

var errNotObject = errors.New("the answer is not a JSON object of bounded size")

// fetchDocument fetches a JSON object of bounded size.
func fetchDocument(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, application/jwk-set+json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, statusError(resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxDocument || wire.Check(body, wire.Limits{Depth: tokenDepth}, wire.Lenient) != nil || wire.ValueOf(body).Kind() != '{' {
		return nil, errNotObject
	}
	return body, nil
}
