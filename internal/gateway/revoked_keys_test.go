package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"mcpgateway/internal/config"
)

// listening opens a stream without an end, and returns it.
func (a *attackTest) listening(ctx context.Context, verb, who, body string, header ...string) *http.Response {
	a.t.Helper()
	req, err := http.NewRequestWithContext(ctx, verb, a.at(who), strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	header = append(header, "X-API-Key", keyOf(who), "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := a.http.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		a.t.Fatalf("%s did not get a stream: %v, %v", who, resp, err)
	}
	return resp
}

// If a reload removes a key or changes its rights, the key is invalid at once, and its sessions
// and streams end, in all profiles. Other keys are not affected.
func TestReloadWithdrawsKeys(t *testing.T) {
	const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	a := startAttack(t, "")
	later := map[string]func(keys []config.APIKey) []config.APIKey{
		"taken out": func(keys []config.APIKey) []config.APIKey { return keys[1:] },
		"other rights": func(keys []config.APIKey) []config.APIKey {
			ann := keys[0]
			ann.Groups = []string{"staff"}
			return []config.APIKey{ann, keys[1]}
		},
	}
	for name, change := range later {
		t.Run(name, func(t *testing.T) {
			before := *a.g.cfg
			if _, err := a.g.Reload(t.Context(), &before); err != nil {
				t.Fatal(err)
			}
			patient, leave := context.WithCancel(t.Context())
			defer leave()
			sessions, ends := map[string]string{}, map[string][]chan error{}
			for _, who := range []string{"ann", "ann@coding", "bob"} {
				sessions[who] = a.session(who)
				for _, stream := range []*http.Response{
					a.listening(patient, http.MethodGet, who, "", "Mcp-Session-Id", sessions[who]),
					a.listening(patient, http.MethodPost, who, listen, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"),
				} {
					end := make(chan error, 1)
					ends[who] = append(ends[who], end)
					go func() {
						_, err := io.Copy(io.Discard, stream.Body)
						stream.Body.Close()
						end <- err
					}()
				}
			}
			after := *a.g.cfg
			after.Auth.APIKeys = change(before.Auth.APIKeys)
			changes, err := a.g.Reload(t.Context(), &after)
			if err != nil || !changes.Other || len(changes.Restart) > 0 {
				t.Fatalf("reload: %+v, %v", changes, err)
			}
			for _, end := range append(ends["ann"], ends["ann@coding"]...) {
				if err := <-end; err != nil {
					t.Errorf("a stream of ann's breaks off: %v", err)
				}
			}
			const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
			want := http.StatusUnauthorized
			if name == "other rights" {
				want = http.StatusNotFound // the session has ended, the key is valid
			}
			for _, who := range []string{"ann", "ann@coding"} {
				if status, _, text := a.legacy(who, sessions[who], ping); status != want {
					t.Errorf("the next request of %s: %d %s", who, status, text)
				}
			}
			if status, _, text := a.legacy("bob", sessions["bob"], ping); status != http.StatusOK {
				t.Errorf("bob's next request: %d %s", status, text)
			}
			leave()
			for _, end := range ends["bob"] {
				if err := <-end; !errors.Is(err, context.Canceled) {
					t.Errorf("a stream of bob's had ended: %v", err)
				}
			}
		})
	}
}
