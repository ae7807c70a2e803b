package frontend

import (
	"bytes"
	"sync/atomic"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// clientCache keeps clients that modern requests have described: a client sends the same
// description with each request, and would be made anew for each. A slot is chosen by the
// client's hash, which nobody outside can compute, and has the last client that came to it. Its
// methods may be called by many goroutines at once.
type clientCache [cachedClients]atomic.Pointer[cachedClient]

const (
	cachedClients = 512
	// maxCachedClient bounds the description of a client that is kept, in bytes.
	maxCachedClient = 2 << 10
)

type cachedClient struct {
	hash   uint64
	client *call.Client
}

// get returns the client with this hash, which has made the Key, as the metadata describe it.
func (c *clientCache) get(hash uint64, meta *requestMeta) *call.Client {
	slot := &c[hash%cachedClients]
	if known := slot.Load(); known != nil && known.hash == hash && meta.describes(known.client) {
		return known.client
	}
	client := newModernClient(modernKey(hash), meta)
	if len(client.Info)+len(client.Capabilities) <= maxCachedClient {
		slot.Store(&cachedClient{hash, client})
	}
	return client
}

// describes reports whether the metadata say of the client what it says of itself.
func (rm *requestMeta) describes(c *call.Client) bool {
	return rm.revision == c.Revision && bytes.Equal(rm.info.Raw(), c.Info) && bytes.Equal(rm.capabilities.Raw(), c.Capabilities)
}

// newModernClient returns the client that a request describes. It copies the metadata,
// because it outlives the request.
func newModernClient(key string, meta *requestMeta) *call.Client {
	info, capabilities := meta.info.Raw(), meta.capabilities.Raw()
	kept := make(wire.Raw, 0, len(info)+len(capabilities))
	kept = append(append(kept, info...), capabilities...)
	c := &call.Client{Key: key, Sessionless: true, Revision: meta.revision, Capabilities: kept[len(info):]}
	if info != nil {
		c.Info = kept[:len(info):len(info)]
	}
	return c
}
