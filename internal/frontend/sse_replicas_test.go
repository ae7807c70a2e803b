package frontend

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"mcpgateway/internal/call"
)

// A client over HTTP+SSE may post at any replica: the one with its stream gets the message.
func TestPostAtAnotherReplica(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		client := openSSEClient(t, c.all[0].Server)
		defer client.end()
		c.unseen = true // the replica with the stream has just started
		at := func(i int) *sseClient { other := *client; other.s = c.all[i].Server; return &other }
		for i, body := range []string{initializeBody, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`} {
			if w := at(i%2+1).send(t, strings.NewReader(body)); w.Code != http.StatusAccepted {
				t.Errorf("%s: %d %s", body, w.Code, w.Body)
			}
			synctest.Wait()
		}
		for _, want := range []string{`"id":1,"result":{`, `"id":2,"result":{}`} {
			if got := client.stream.written(); strings.Count(got, want) != 1 {
				t.Errorf("the stream has %s, want %s once", got, want)
			}
		}
		if w := at(1).send(t, strings.NewReader(initializeBody)); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"id":1,"error":{"code":-32600,"message":"invalid request: initialize was sent already"`) {
			t.Errorf("a second initialize: %d %s", w.Code, w.Body)
		}
		if w := at(1).send(t, strings.NewReader(`{`)); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"code":-32700`) {
			t.Errorf("no JSON: %d %s", w.Code, w.Body)
		}

		// Another principal, another id and another name of a replica find nothing.
		msg := postedMessage{Peer: strings.TrimPrefix(client.post[strings.Index(client.post, "=")+1:], "="), Owner: ownerOf(&call.Principal{Subject: "eve"}), Body: []byte(initializeBody)}
		if reply, err := c.all[0].handlePost(t.Context(), encode(msg), nil); err != nil || string(reply) != `{"status":404}` {
			t.Errorf("another principal: %s, %v", reply, err)
		}
		before := c.calls.Load()
		for _, id := range []string{"x.R0", "x.R1", "x.R7", "x.", "x." + strings.Repeat("R", 65)} {
			stray := at(1)
			stray.post = client.post[:strings.Index(client.post, "=")+1] + id
			if w := stray.send(t, strings.NewReader(initializeBody)); w.Code != http.StatusNotFound {
				t.Errorf("the id %s: %d %s", id, w.Code, w.Body)
			}
		}
		if n := c.calls.Load() - before; n != 2 {
			t.Errorf("%d requests to replicas for these ids, want one for R0 and one for R7", n)
		}

		c.kept.away.Store(true)
		if w := at(1).send(t, strings.NewReader(initializeBody)); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("without the store: %d %s", w.Code, w.Body)
		}
		c.kept.away.Store(false)
		c.gone[0] = true
		if w := at(1).send(t, strings.NewReader(initializeBody)); w.Code != http.StatusNotFound {
			t.Errorf("after the end of the replica: %d %s", w.Code, w.Body)
		}
	})
}
