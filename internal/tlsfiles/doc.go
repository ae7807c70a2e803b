// Package tlsfiles makes TLS configurations from files that may change while they are in
// use, for example when a program renews a certificate.
package tlsfiles
