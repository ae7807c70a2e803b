// Package held shares sessions with upstreams among replicas. A session that belongs to one client or
// principal exists once: one replica holds it by a lease, and the others pass its calls, its tasks and its
// subscriptions to that one. If the holder ends, another replica takes its sessions over. Without the
// store, each replica uses sessions of its own.
package held
