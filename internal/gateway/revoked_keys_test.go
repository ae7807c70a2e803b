package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/config"
	"mcpgateway/internal/wire"
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

const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// If a reload removes a key or changes its rights, the key is invalid at once, and its sessions
// and streams end, in all profiles. Other keys are not affected.
func TestReloadWithdrawsKeys(t *testing.T) {
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

// calling calls the tool "ask" in a session. It returns the id of the question, and a function that
// returns the last message of the stream.
func (a *attackTest) calling(who, session string) (ask string, last func() string) {
	a.t.Helper()
	resp := a.listening(a.t.Context(), http.MethodPost, who, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"legacy__ask","arguments":{}}}`, "Mcp-Session-Id", session)
	in := bufio.NewScanner(resp.Body)
	for ask == "" && in.Scan() {
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok && strings.Contains(data, wire.MethodElicit) {
			ask = string(wire.ValueOf(wire.Raw(data)).Get("id").Raw())
		}
	}
	return ask, func() (text string) {
		defer resp.Body.Close()
		for in.Scan() {
			if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
				text = data
			}
		}
		return text
	}
}

// A session and its calls end only if the key that began the session is revoked, or has other rights,
// and the error says which. A key that is going to expire, and other keys of the same subject, are not
// affected. Streams that may have begun with the key end.
func TestReloadOfOneKeyOfASubject(t *testing.T) {
	a := startAttack(t, "")
	const revoked, changed = "the credentials of the client were revoked", "the rights of the client have changed"
	for name, tt := range map[string]struct {
		change func(ann *config.APIKey) (removed bool)
		ends   string // why the call of the changed key ends, "" if it continues
		status int    // of the next request in the session of the changed key
	}{
		"expires in the future": {func(ann *config.APIKey) bool {
			ann.Expires = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
			return false
		}, "", http.StatusOK},
		"expires in the past": {func(ann *config.APIKey) bool { ann.Expires = "2020-01-01"; return false }, revoked, http.StatusUnauthorized},
		"removed":             {func(*config.APIKey) bool { return true }, revoked, http.StatusUnauthorized},
		"other rights":        {func(ann *config.APIKey) bool { ann.Groups = []string{"staff"}; return false }, changed, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			reload := func(keys ...config.APIKey) {
				t.Helper()
				cfg := *a.g.cfg
				cfg.Auth.APIKeys = keys
				if _, err := a.g.Reload(t.Context(), &cfg); err != nil {
					t.Fatal(err)
				}
			}
			ann := config.APIKey{ID: "ann", SHA256: digestOf(keyOf("ann"))}
			next := config.APIKey{ID: "ann-2", Subject: "ann", SHA256: digestOf(keyOf("ann-2"))}
			reload(ann, next)
			sessions, asks, last := map[string]string{}, map[string]string{}, map[string]func() string{}
			for _, who := range []string{"ann", "ann-2"} {
				sessions[who] = a.session(who)
				asks[who], last[who] = a.calling(who, sessions[who])
			}
			patient, leave := context.WithCancel(t.Context())
			defer leave()
			streams := map[string][]*http.Response{"ann": {a.listening(patient, http.MethodGet, "ann", "", "Mcp-Session-Id", sessions["ann-2"])}}
			for _, who := range []string{"ann", "ann-2"} {
				streams[who] = append(streams[who], a.listening(patient, http.MethodPost, who, listen, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"))
			}
			if removed := tt.change(&ann); removed {
				reload(next)
			} else {
				reload(ann, next)
			}
			for i, stream := range streams["ann"] {
				text, err := io.ReadAll(stream.Body)
				if err != nil {
					t.Errorf("a stream of the changed key breaks off: %v", err)
				}
				stream.Body.Close()
				if i == 0 { // the session's: the other key resumes it
					_, id, ok := strings.Cut(string(text), "id: ")
					if !ok {
						t.Errorf("the stream has no event with an id: %q", text)
					}
					id, _, _ = strings.Cut(id, "\n")
					streams["ann-2"] = append(streams["ann-2"], a.listening(patient, http.MethodGet, "ann-2", "", "Mcp-Session-Id", sessions["ann-2"], "Last-Event-ID", id))
				}
			}
			for who, want := range map[string]string{"ann": tt.ends, "ann-2": ""} {
				if want == "" {
					want = `"accept"`
					if status, _, text := a.legacy(who, sessions[who], `{"jsonrpc":"2.0","id":`+asks[who]+`,"result":{"action":"accept"}}`); status != http.StatusAccepted {
						t.Errorf("the answer of %s: %d %s", who, status, text)
					}
				}
				if text := last[who](); !strings.Contains(text, want) {
					t.Errorf("the call of %s: %s, want %s", who, text, want)
				}
			}
			for who, want := range map[string]int{"ann": tt.status, "ann-2": http.StatusOK} {
				if status, _, text := a.legacy(who, sessions[who], `{"jsonrpc":"2.0","id":2,"method":"ping"}`); status != want {
					t.Errorf("the next request of %s: %d %s", who, status, text)
				}
			}
			leave()
			for _, stream := range streams["ann-2"] {
				if _, err := io.Copy(io.Discard, stream.Body); !errors.Is(err, context.Canceled) {
					t.Errorf("a stream of the other key had ended: %v", err)
				}
				stream.Body.Close()
			}
		})
	}
}
