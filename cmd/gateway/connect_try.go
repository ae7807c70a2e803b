package main

import (
	"context"
	"crypto/tls"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/hostconfig"
	"mcpgateway/internal/upstream/diagnose"
)

// tryTimeout bounds the attempt to reach the URL of an entry.
const tryTimeout = 3 * time.Second

// tryURL warns on standard error if MCP does not answer at the URL of an entry. The entry may be written all the same: the
// gateway may be started later.
func tryURL(cmd *cobra.Command, e hostconfig.Entry) {
	if e.URL == "" {
		return
	}
	shown := e.String()
	is, err := isMCP(cmd.Context(), e.URL)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		folded(cmd.ErrOrStderr(), "warning: nothing answers at %s: start the gateway there before the host.\n", shown)
	case err != nil:
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the URL, which may have a secret
		}
		if at, bad := url.Parse(e.URL); bad == nil && isCertificate(err) {
			err = errors.New(withoutEntry(diagnose.Remote(diagnose.RemoteServer{URL: at}, err)))
		}
		folded(cmd.ErrOrStderr(), "warning: %s cannot be reached: %v\n", shown, err)
	case !is:
		right := ""
		if u, err := url.Parse(e.URL); err == nil && !strings.HasSuffix(u.Path, endpoint.Path) {
			u = u.JoinPath(endpoint.Path)
			if is, err := isMCP(cmd.Context(), u.String()); is && err == nil {
				right = "; MCP is at " + hostconfig.Entry{URL: u.String()}.String()
			}
		}
		folded(cmd.ErrOrStderr(), "warning: %s does not speak MCP%s.\n", shown, right)
	}
}

// isCertificate reports whether an error is about the certificate of a server.
func isCertificate(err error) bool {
	_, is := errors.AsType[*tls.CertificateVerificationError](err)
	return is
}

// isMCP reports whether what answers at a URL may be MCP, as far as the head of the answer says. A refusal, such as that of a gateway which requires a key, may.
func isMCP(ctx context.Context, at string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}}
	answer, err := client.Do(r)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return answer.StatusCode != http.StatusNotFound && answer.StatusCode != http.StatusMethodNotAllowed && kind != "text/html", nil
}
