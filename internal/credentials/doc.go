// Package credentials proves to upstreams who calls: it makes the headers of
// requests out of a [call.Principal] and what the configuration gives.
//
//	principal ──▶ Source ──▶ templates of headers                     (template.go)
//	                 │
//	                 └─────▶ tokens, kept until shortly before they expire (cache.go)
//	                           ├── the gateway's own grant             (own.go)
//	                           ├── the principal's token, exchanged    (exchange.go, enterprise.go)
//	                           └── the principal's own grant           (user.go)
//	                                 kept in a [Store], encrypted      (store.go)
//	                                 made by a [Flow] in a browser     (flow.go),
//	                                   which [Web] serves to users of a gateway (web.go),
//	                                   and [Login] to the user of a machine (login.go)
//
// Beneath that are requests to token endpoints (token.go, assertion.go), the
// metadata of servers (discover.go, register.go), and the guard that all of them go
// through (guard.go).
//
// It is a package of its own and no part of auth, which finds out who sends
// requests: that one reads what strangers send and has no secrets, this one holds
// secrets and hands them to others. They share the principal, and nothing else.
//
// # Guarantees
//
// What a client sent is never passed to an upstream: its token goes to token
// endpoints that the configuration names, and to nobody else. Secrets and private
// keys too go only where the configuration says.
//
// Hosts that the network names, in challenges, metadata and redirects, are
// connected to over TLS, at public addresses; the check is made on the address that
// the name was resolved to, for every connection. On loopback both are waived, if
// the upstream is on loopback itself. The origin of the upstream and of what the
// configuration names is trusted with any address.
//
// Every request is bounded in time and its answer in size. What fails is tried
// again after a pause at the earliest, whoever asks. Many who need the same token at
// once wait for one request.
//
// The text of an [Error] is fit for clients: it has no secret, no address, and of
// what a server said only an error code. Nothing here logs.
//
// Everything exported may be used by many goroutines at once. The package holds no
// goroutine but those of requests that are under way, which are bounded in time.
package credentials
