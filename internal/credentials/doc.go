// Package credentials authenticates requests to upstreams: it makes their headers from a
// [call.Principal] and the configuration.
//
//	principal ──▶ Source ──▶ templates of headers                       (template.go)
//	                 │
//	                 └─────▶ tokens, cached until shortly before expiry (cache.go)
//	                           ├── the gateway's own token              (clientcredentials.go)
//	                           ├── the principal's token, exchanged     (exchange.go, enterprise.go)
//	                           └── the principal's grant                (user.go)
//	                                 stored in a [Store], encrypted,    (store.go)
//	                                   in a folder or among replicas    (folder.go, shared.go)
//	                                 given in a browser                 (flow.go),
//	                                   on pages of the gateway: [Web]   (web.go),
//	                                   or on this machine: [Login]      (login.go)
//
// The rest of the package sends requests to token endpoints (token.go, assertion.go),
// discovers authorization servers (discover.go, register.go), and guards all requests
// (guard.go).
//
// The package is separate from auth, which authenticates clients: auth reads input of strangers
// and has no secrets, this package has secrets and sends them to upstreams. They share only the
// principal.
//
// # Guarantees
//
// A client's token is never sent to an upstream. It goes to token endpoints of the
// configuration only, and so do secrets and private keys.
//
// Hosts in challenges, metadata and redirects are reached over TLS and at public
// addresses only. The address is checked after name resolution, for every connection. If
// the upstream is on loopback, other hosts on loopback are allowed, without TLS. The
// origins of the upstream and of the configuration are trusted at any address.
//
// Every request is bounded in time, and its response in size. After a failure there is a
// pause before the next attempt, for all callers. Concurrent callers that need the same
// token share one request.
//
// Only one process at a time uses a refresh token, and only once if the server renews it. If a
// renewed grant cannot be stored, it is kept in memory.
//
// The text of an [Error] is safe for clients: it contains no secret and no address, and
// of the server's response only an error code. The package logs nothing.
//
// Everything exported is safe for concurrent use. The package has no goroutines except
// those of running requests, which are bounded in time, and of [Store.Run].
package credentials
