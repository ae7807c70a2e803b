// Package oauthmeta finds, reads and writes the metadata documents of OAuth: those of
// authorization servers (RFC 8414, OpenID Connect Discovery 1.0) and those of protected
// resources (RFC 9728).
//
// The caller fetches the documents: auth trusts the issuers of its configuration,
// credentials follows what upstreams name and guards every request. Documents are data of
// a peer. The package checks that a document is about the issuer or resource that was
// asked for, and leaves the URLs in it to the caller, who has to check them before use.
package oauthmeta
