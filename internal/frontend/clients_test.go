package frontend

import (
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// describe returns the metadata of a request, and the text that they are slices of.
func describe(info, capabilities, revision string) (*requestMeta, wire.Raw) {
	text := wire.Raw(`{"_meta":{"` + wire.MetaClientInfo + `":` + info + `,"` + wire.MetaClientCapabilities + `":` + capabilities +
		`,"` + wire.MetaProtocolVersion + `":"` + revision + `"}}`)
	meta := readMeta(&wire.Message{Params: text})
	return &meta, text
}

// A client that describes itself in the same words is the same, and no client gets what another
// has said, even if both have one hash.
func TestClientCache(t *testing.T) {
	var cache clientCache
	const info, latest = `{"name":"host","version":"1"}`, "2026-07-28"
	get := func(hash uint64, info, capabilities, revision string) *call.Client {
		t.Helper()
		meta, text := describe(info, capabilities, revision)
		c := cache.get(hash, nil, meta)
		for i := range text {
			text[i] = 'x' // the buffer of the body is used for the next request
		}
		if string(c.Info) != info || string(c.Capabilities) != capabilities || string(c.Revision) != revision || c.Key != modernKey(hash) || !c.Sessionless {
			t.Errorf("client %+v, want %s %s %s with the key %s", c, info, capabilities, revision, modernKey(hash))
		}
		return c
	}
	first := get(1, info, `{}`, latest)
	if again := get(1, info, `{}`, latest); again != first {
		t.Error("the same client was made again")
	}
	for name, other := range map[string]*call.Client{
		"other capabilities": get(1, info, `{"roots":{}}`, latest),
		"other info":         get(1, `{"name":"other","version":"1"}`, `{}`, latest),
		"another spelling":   get(1, `{"version":"1","name":"host"}`, `{}`, latest),
		"another revision":   get(1, info, `{}`, "2099-01-01"),
		"the same slot":      get(1+cachedClients, info, `{}`, latest),
	} {
		if other == first {
			t.Errorf("%s: it is the first client", name)
		}
	}
	large := `{"name":"` + strings.Repeat("x", maxCachedClient) + `"}`
	if get(2, large, `{}`, latest); cache.slots[2].Load() != nil {
		t.Error("a large description is kept")
	}
}

// A modern client has one Key at all replicas that share keys. Other clients, and the same client of another
// principal or at a server with other keys, have others.
func TestModernClientAtReplicas(t *testing.T) {
	meta, _ := describe(`{"name":"host","version":"1"}`, `{}`, "2026-07-28")
	other, _ := describe(`{"name":"other","version":"1"}`, `{}`, "2026-07-28")
	key := func(r *replica, who string, meta *requestMeta) string {
		return r.modernClient(request(t, nil), &call.Principal{Subject: who, AuthMethod: "api-key"}, meta).Key
	}
	a, b := newReplica(t, nil, 1), newReplica(t, nil, 1, 2)
	first := key(a, "ann", meta)
	if got := key(b, "ann", meta); got != first || !strings.HasPrefix(got, modernPrefix) {
		t.Errorf("the other replica has %q, want %q", got, first)
	}
	for name, got := range map[string]string{
		"another client": key(a, "ann", other), "another principal": key(a, "bob", meta), "other keys": key(newReplica(t, nil, 2), "ann", meta),
		"no keys": key(newReplica(t, nil), "ann", meta),
	} {
		if got == first {
			t.Errorf("%s has the same Key", name)
		}
	}
}
