package e2e

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/rig"
)

// TestSubscriptions lets clients of both eras subscribe to resources of servers of both eras.
func TestSubscriptions(t *testing.T) {
	everything, fixture := rig.EverythingCommand(t), rig.FixtureCommand(t)
	gateway := rig.StartOne(t, "the servers make updates only in the session in which a client asked for them, and each replica has its own", rig.Config{"upstreams": rig.Upstreams{
		"stdio":        {"command": everything[0], "args": everything[1:], "resources": rig.Config{"deny": []string{"*/text/13"}}},
		"http":         {"url": rig.EverythingHTTP(t)},
		"sse":          {"url": rig.EverythingSSE(t)},
		"legacy":       {"url": rig.Fixture(t, rig.Legacy), "era": rig.Legacy},
		"modern":       {"url": rig.Fixture(t, rig.Modern), "era": rig.Modern},
		"modern-stdio": {"command": fixture[0], "args": fixture[1:], "era": rig.Modern},
	}})
	watched := map[string]string{
		"stdio": "demo://resource/static/document/features.md", "http": "demo://resource/dynamic/text/1", "sse": "demo://resource/dynamic/text/1",
		"legacy": "test://watched-resource", "modern": "test://watched-resource", "modern-stdio": "test://watched-resource",
	}
	subscribers := map[string]*subscriber{
		client.Legacy: connectSubscriber(t, client.Legacy, gateway.URL),
		client.Modern: connectSubscriber(t, client.Modern, gateway.URL),
	}
	for era, s := range subscribers {
		for upstream, native := range watched {
			if err := s.session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: publicURI(upstream, native)}); err != nil {
				t.Fatalf("%s client, %s: subscribe: %v", era, upstream, err)
			}
		}
	}
	for _, upstream := range []string{"stdio", "http", "sse"} { // these servers make updates only after this call
		tool := publicName(upstream, "toggle-subscriber-updates")
		if _, err := subscribers[client.Legacy].session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}}); err != nil {
			t.Errorf("%s: %v", tool, err)
		}
	}
	for era, s := range subscribers {
		t.Run(era+" client", func(t *testing.T) {
			waiting := make(map[string]bool)
			for upstream, native := range watched {
				waiting[publicURI(upstream, native)] = true
			}
			timeout := time.After(soon) // the fixture makes an update every three seconds, "everything" every five
			for len(waiting) > 0 {
				select {
				case uri := <-s.updates:
					delete(waiting, uri)
				case <-timeout:
					t.Fatalf("no update of %v within %s", waiting, soon)
				}
			}
		})
	}
	// If policy could refuse a resource of the upstream, a client cannot subscribe to a URI that is not listed.
	for _, native := range []string{"demo://resource/dynamic/text/13", "demo://resource/dynamic/text/1"} {
		t.Run("refused: "+native, func(t *testing.T) {
			err := subscribers[client.Legacy].session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: publicURI("stdio", native)})
			if rpc, ok := errors.AsType[*jsonrpc.Error](err); !ok || rpc.Code != -32002 {
				t.Errorf("error %v, want the error of a missing resource", err)
			}
		})
	}
}

// subscriber is a client of the Go SDK that receives updates.
type subscriber struct {
	session *mcp.ClientSession
	updates chan string // URIs
}

func connectSubscriber(t *testing.T, era, url string) *subscriber {
	t.Helper()
	s := &subscriber{updates: make(chan string, 1000)}
	c := mcp.NewClient(&mcp.Implementation{Name: "subscriber", Version: "1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			select {
			case s.updates <- r.Params.URI:
			default: // the test has stopped reading
			}
		},
	})
	options := &mcp.ClientSessionOptions{}
	if era == client.Legacy {
		options.ProtocolVersion = "2025-11-25"
	}
	connections := &http.Transport{}
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: connections}, MaxRetries: -1}, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		connections.CloseIdleConnections()
	})
	s.session = session
	return s
}
