package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mcpgateway/internal/origin"
	"mcpgateway/internal/wire"
)

const (
	fetchTimeout = 5 * time.Second
	maxDocument  = 1 << 20
	maxRedirects = 3
)

// fetcher returns the client that documents of issuers are fetched with, or given
// where that is one. It keeps no connections: there are few fetches, far apart.
func fetcher(given *http.Client) *http.Client {
	if given != nil {
		return given
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableKeepAlives = true
	t.MaxResponseHeaderBytes = 64 << 10
	return &http.Client{Transport: t, Timeout: fetchTimeout, CheckRedirect: sameHost}
}

// sameHost lets redirects lead to where the configuration led, and nowhere else.
func sameHost(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	if first := via[0].URL; r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
		return errors.New("the redirect leads to another host")
	}
	return nil
}

// safeURL demands TLS, save toward this machine (2026-07-28, basic/authorization/
// security-considerations, "Communication Security").
func safeURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "":
		return fmt.Errorf("%s is no https URL", s)
	case u.Scheme == "https", u.Scheme == "http" && origin.IsLoopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%s is not https, which it has to be unless it is on this machine", s)
}

// discovery finds the keys of an issuer.
type discovery struct {
	issuer         string
	metadata, keys string // "" for the usual places
	client         *http.Client
}

// find returns the URL of the issuer's keys.
func (d *discovery) find(ctx context.Context) (string, error) {
	if d.keys != "" {
		return d.keys, nil
	}
	places := []string{d.metadata}
	if d.metadata == "" {
		places = wellKnown(d.issuer)
	}
	var faults []error
	for _, place := range places {
		keys, err := d.ask(ctx, place)
		if err == nil {
			return keys, nil
		}
		faults = append(faults, fmt.Errorf("%s: %w", place, err))
	}
	return "", errors.Join(faults...)
}

// wellKnown returns where the metadata of an issuer may be, in the order in which
// clients look there too (2025-11-25, basic/authorization, and 2026-07-28,
// basic/authorization/authorization-server-discovery, "Authorization Server Metadata
// Discovery").
func wellKnown(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	base := u.Scheme + "://" + u.Host
	places := []string{
		base + "/.well-known/oauth-authorization-server" + path,
		base + "/.well-known/openid-configuration" + path,
	}
	if path != "" {
		places = append(places, base+path+"/.well-known/openid-configuration")
	}
	return places
}

// ask fetches metadata, and returns what it says of keys. Metadata of another issuer
// is not used (RFC 8414, section 3.3).
func (d *discovery) ask(ctx context.Context, place string) (string, error) {
	body, err := fetchDocument(ctx, d.client, place)
	if err != nil {
		return "", err
	}
	doc := wire.ValueOf(body)
	if doc.Get("issuer").Str() != d.issuer {
		return "", errors.New("is the metadata of another issuer")
	}
	keys := doc.Get("jwks_uri").Str()
	return keys, safeURL(keys)
}

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
		return nil, fmt.Errorf("the answer is %s", resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxDocument || wire.Check(body, wire.Limits{Depth: tokenDepth}, wire.Lenient) != nil || wire.ValueOf(body).Kind() != '{' {
		return nil, errors.New("the answer is no JSON object of bounded size")
	}
	return body, nil
}
