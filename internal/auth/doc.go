// Package auth finds out who sends a request: it turns proof, which is an access
// token of an issuer, an API key or a client certificate, into a [call.Principal].
//
//	request ──▶ which proof, at most one      (proof.go)
//	              ├── API key                 (apikey.go)
//	              ├── access token            (token.go, claims.go)
//	              │     └── keys of its issuer, found by discovery and
//	              │         fetched again when they change (issuer.go, keyset.go, discover.go)
//	              └── client certificate      (certificate.go)
//
// Toward tokens it is the resource server of the specification's authorization
// chapter (2025-11-25, basic/authorization; 2026-07-28, basic/authorization): it
// publishes the metadata of RFC 9728 (metadata.go) and answers what is refused with
// the challenges of RFC 6750 (failure.go).
//
// # Guarantees
//
// An [Authenticator] may be used by any number of goroutines at once, and holds no
// goroutine of its own; one that fetches keys ends with the fetch, which is bounded
// in time. Every request is verified. What took a signature to verify is remembered
// by the digest of the token, for a few minutes and never past the token's expiry.
//
// Work for a stranger is bounded: a proof has at most 16 KiB, keys are fetched at
// most once in ten seconds for each issuer whatever tokens name, and the addresses
// that are fetched from stand in the configuration or in the issuer's own metadata,
// never in a token.
//
// An issuer that cannot be reached fails requests with tokens of it, not the start:
// such a request gets 503, since nobody knows whether its token is good.
//
// Nothing of a proof is ever logged, counted or said in an error.
package auth
