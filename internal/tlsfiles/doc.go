// Package tlsfiles makes configurations of TLS from files that may change while they are in
// use, as those of programs that renew certificates do.
package tlsfiles
