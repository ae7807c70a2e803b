// Package store runs the tests of package store against Redis from Debian: a single server, a Cluster, behind Sentinel, and with TLS.
package store
