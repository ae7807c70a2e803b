// Package namespace gives the items of many upstreams names that do not
// collide, and finds the way back.
//
//	                 native                    public
//	tool, prompt     read_file                 files__read_file
//	                 ein name, too long, …     files__ein_name_h0c1f…    (and _meta["mcpgateway/native"])
//	resource         file:///a.txt             files+file:///a.txt
//	                 no scheme, FILE:///a, ""  files+0:no scheme, files+0:FILE:///a, files+0:
//	                 ui://weather/now          ui://files.weather/now
//	                 ui:now                    ui://files~/now
//	                 https://example.com/      https://example.com/      (never changed)
//	template         file:///{path}            files+file:///{path}
//	                 {scheme}://{host}         files+0:{scheme}://{host}
//
// # Names
//
// A public name is one that every model provider accepts: [A-Za-z0-9_-]{1,64}.
// A name that cannot be had by putting the prefix in front is cleaned,
// shortened, and told apart by a hash of the native name. A native name that
// itself looks like the outcome of that gets a hash too, so no upstream can take
// the public name of another item. The public name depends on nothing but the
// upstream's own naming and the native name: an upstream that comes or goes
// changes no name.
//
// # URIs
//
// Every string comes back as it was: what follows the prefix is never escaped
// or normalized. A prefix followed by a scheme is a scheme itself (RFC 3986,
// 3.1). Native text that does not begin with a scheme in lower case is marked
// "0", which no scheme begins with; upper case is among that because readers of
// URIs may turn schemes into lower case. Hosts of MCP Apps accept only ui://,
// so there the upstream's name goes into the authority: before a dot what
// followed ui://, before a tilde what followed ui: without slashes.
//
// For templates (RFC 6570) the same mapping is used. The prefix never touches
// an expression, so whatever a public template expands to has the native
// template's expansion as its native form.
//
// An upstream without a prefix keeps its URIs and, where they are well formed,
// its names.
//
// # Rewriting
//
// What refers to an item inside a message is rewritten in both directions, and
// nothing else is: text, tool arguments and tool names inside sampling requests
// stay. All other bytes stay as they came, and a message without references is
// returned as the slice that it is. Where an upstream repeats a member, every
// occurrence is rewritten, since it is not known which one a client reads.
//
// The package is pure. A [Naming] is immutable and safe for concurrent use.
package namespace
