package frontend

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"sync/atomic"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// clientCache keeps clients that modern requests have described: a client sends the same
// description with each request, and would be made anew for each. A slot is chosen by the
// client's hash, which nobody outside can compute, and has the last client that came to it. Its
// methods may be called concurrently.
type clientCache struct {
	slots [cachedClients]atomic.Pointer[cachedClient]
	// shared makes the Keys of clients, which are then the same at all replicas; without it they are hashes.
	shared []byte
}

const (
	cachedClients = 512
	// maxCachedClient bounds the description of a client that is kept, in bytes.
	maxCachedClient = 2 << 10
)

type cachedClient struct {
	hash   uint64
	client *call.Client
}

// get returns the client that text tells from others, as the metadata describe it. hash is of text.
func (c *clientCache) get(hash uint64, text []byte, meta *requestMeta) *call.Client {
	slot := &c.slots[hash%cachedClients]
	if known := slot.Load(); known != nil && known.hash == hash && meta.describes(known.client) {
		return known.client
	}
	client := newModernClient(c.key(hash, text), meta)
	if len(client.Info)+len(client.Capabilities) <= maxCachedClient {
		slot.Store(&cachedClient{hash, client})
	}
	return client
}

// key returns the Key of a client.
func (c *clientCache) key(hash uint64, text []byte) string {
	if c.shared == nil {
		return modernKey(hash)
	}
	mac := hmac.New(sha256.New, c.shared)
	mac.Write(bytes.Clone(text)) // so that the caller's text stays on its stack
	return modernPrefix + hex.EncodeToString(mac.Sum(nil)[:16])
}

// clientsKey returns what makes the Keys of modern clients where replicas share the keys of sessions.
func clientsKey(keys [][]byte) []byte {
	if len(keys) == 0 {
		return nil
	}
	mac := hmac.New(sha256.New, keys[0])
	mac.Write([]byte("keys of modern clients"))
	return mac.Sum(nil)
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
