// Package namespace gives the items of many upstreams names that do not collide, and
// converts these names back.
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
// Every model provider accepts a public name: it matches [A-Za-z0-9_-]{1,64}. If the prefix
// and the native name do not make such a name, the name is cleaned, shortened, and gets a
// hash of the native name. A native name that looks like a hashed one gets a hash, too, so
// no upstream can take the public name of another item. The public name depends only on the
// naming of the upstream and on the native name, so other upstreams do not change it.
//
// # URIs
//
// Every URI can be converted back: the text after the prefix is never escaped or
// normalized. A prefix followed by a scheme is a scheme itself (RFC 3986, 3.1). Native text
// without a lower-case scheme is marked with "0", which is not the beginning of a scheme.
// Upper case is marked because readers of URIs may turn schemes into lower case. Hosts of
// MCP Apps accept only ui://, so ui: URIs have the upstream's name in their authority: a
// dot separates it from what followed ui://, a tilde from what followed ui: without
// slashes.
//
// Templates (RFC 6570) are converted in the same way. The prefix never touches an
// expression, so the native form of an expansion is an expansion of the native template.
//
// An upstream without a prefix keeps its URIs and its well-formed names.
//
// # Rewriting
//
// References to items inside a message are rewritten in both directions. Text, tool
// arguments and tool names in sampling requests are not. All other bytes are unchanged,
// and a message without references is returned as the same slice. If an upstream repeats
// a member, every occurrence is rewritten, because clients differ in which one they read.
//
// The package is pure. A [Naming] is immutable and safe for concurrent use.
package namespace
