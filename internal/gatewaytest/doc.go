// Package gatewaytest has what tests of several packages stand on: a small world that
// policies are tried on, with a naive reader of them, and an issuer of
// access tokens whose keys rotate, which can also be made to fail. It is imported by
// tests only.
package gatewaytest
