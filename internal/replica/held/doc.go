// Package held shares sessions with upstreams among replicas. The session of a client or principal exists
// once: one replica holds it by a lease, and the others forward its calls, tasks and subscriptions to the
// holder. If the holder ends, another replica takes its sessions over. While the store does not answer,
// each replica uses its own sessions.
package held
