// Package gatewaytest has what tests of several packages stand on: an issuer of
// access tokens whose keys rotate, which can also be made to fail. It is imported by
// tests only.
package gatewaytest
