// Package gatewaytest has fixtures for tests of several packages: a small world of items
// for random policies, with a naive evaluator to compare with, issuers of access tokens
// whose keys rotate and that can be made to fail, and certificates. Only tests import it.
package gatewaytest
