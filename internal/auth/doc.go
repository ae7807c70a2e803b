// Package auth authenticates requests: it turns an access token, an API key or a client
// certificate into a [call.Principal].
//
//	request ──▶ credentials, of one kind      (credentials.go)
//	              ├── API key                 (apikey.go)
//	              ├── access token            (token.go, claims.go)
//	              │     └── the keys of its issuer, from its metadata,
//	              │         fetched again when they change (issuer.go, keyset.go, discover.go)
//	              └── client certificate      (certificate.go)
//
// For tokens the gateway is the resource server of the specification (2025-11-25 and
// 2026-07-28, basic/authorization): it publishes the metadata of RFC 9728 (metadata.go),
// and its refusals carry the challenges of RFC 6750 (failure.go).
//
// # Guarantees
//
// An [Authenticator] is safe for concurrent use. It has no permanent goroutine; each fetch of
// keys runs in a goroutine that ends with the fetch, within bounded time. Every request is
// authenticated. The result of a verified signature is cached by the digest of the token, for
// a few minutes and never beyond the expiry of the token.
//
// The time of authentication does not depend on the number of API keys, nor on their digests.
//
// The work for unauthenticated clients is bounded: credentials have at most 16 KiB, and keys
// are fetched from an issuer at most once in ten seconds, after a small burst. Documents are
// fetched from URLs of the configuration and of the issuer's metadata, never from URLs in a
// token.
//
// The gateway starts even if its issuers cannot be reached. While an issuer cannot be
// reached, requests with its tokens get 503, because the tokens cannot be verified.
//
// Credentials never appear in logs, metrics or errors. The log line about a refused token has
// the claims that name its issuer, audience, subject and times ([Denied.Log]).
package auth
