// Package oauthmeta finds, reads and writes the metadata documents of OAuth: those of
// authorization servers (RFC 8414, OpenID Connect Discovery 1.0) and those of protected
// resources (RFC 9728). It also reads the challenges with which servers refuse requests.
//
// The caller fetches the documents: auth trusts the issuers of its configuration,
// credentials follows what upstreams name and guards every request. Documents come from a
// peer and are not trusted. The package checks that a document is about the requested
// issuer or resource. The caller has to check the URLs in it before use.
package oauthmeta
