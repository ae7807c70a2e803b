// Package webui serves the console: pages for a person who looks at a gateway. Pages are rendered on
// the server, live by one event stream, and work without a script. docs/design/console.md has the
// reasons.
//
// To add a page, write NAME.go with a variable of type *page, templates/NAME.html with a template
// "content" and one "live-REGION" for each part that changes, and put the variable into pages.
//
// At the address of MCP people are principals, as clients are: visitor.go says who sent a request, and
// me.go has the page on which they see what is theirs.
//
// All text that servers and clients choose is hostile. Templates escape it, and the renderer makes
// control and invisible characters visible in everything that it sends.
//
// The handler may be called by many goroutines at once.
package webui
