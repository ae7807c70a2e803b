// Package landing serves the page for people who open the address of MCP in a browser.
// The page explains the address, and has the entry to paste into each host.
//
// The page is one document without scripts, images and links to other files, and its
// policy (Content-Security-Policy) allows nothing but its own style. It shows the URL of
// the gateway and nothing about upstreams, so it needs no authentication. Everything that
// comes from the request is escaped.
package landing
