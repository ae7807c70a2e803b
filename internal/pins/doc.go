// Package pins remembers the accepted definitions of tools, for upstreams with pin: true. A tool with a new or changed
// definition is hidden until it is accepted, so an upstream that was trusted once cannot replace a description unnoticed.
package pins
