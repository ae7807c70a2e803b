// Package landing is the page that a person gets who opens the address of MCP in a
// browser. It says what the address is, and what to paste into each host.
//
// The page is one document without scripts, images and links to other files, and its
// policy (Content-Security-Policy) allows nothing but its own style. It shows the URL of
// the gateway and nothing about upstreams, so it needs no authentication. Everything that
// comes from the request is escaped.
package landing
