// Package webui serves the console: web pages that show the state of a gateway. Pages are rendered on
// the server, updated by one event stream, and work without JavaScript. docs/design/console.md has the
// reasons.
//
// To add a page, write NAME.go with a variable of type *page, templates/NAME.html with a template
// "content" and one "live-REGION" for each part that changes, and put the variable into pages.
//
// At the address of MCP users of the console are principals, like clients: visitor.go determines the
// principal of a request, and me.go has the page on which principals see their own data.
//
// All text that servers and clients choose is hostile. Templates escape it, and the renderer makes
// control and invisible characters visible in everything that it sends.
//
// The handler may be called concurrently.
package webui
