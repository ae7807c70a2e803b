// Package pins remembers the accepted definitions of tools, for upstreams with pin: true. A tool whose definition is new or changed is held back until it is accepted:
// an upstream that was trusted once cannot replace a description unnoticed.
package pins
