// Package downlevel replaces parts that a client's revision of the protocol does not know
// by their nearest older form, because clients refuse a whole result or list for one
// unknown part:
//
//	for clients before   what                                      becomes
//	2025-03-26           an audio block                            a text block: MIME type and size
//	2025-06-18           a resource_link block                     a text block: name, URI, description, …
//	2025-11-25           execution.taskSupport "required"          nothing: the tool can be called directly
//	2025-11-25           notifications of tasks and elicitations   nothing; after it, too
//	2026-07-28           structuredContent that is not an object   a text block with the same JSON, unless there is one
//	2026-07-28           outputSchema whose type is not "object"   nothing
//	2026-07-28           true, false in properties of a tool's     {}, {"not":{}}, which mean the same
//	                     inputSchema and outputSchema
//
// The lines about outputSchema and structuredContent belong together: a client that sees
// only one of the two throws. Both are recognized by their own form, so a result needs no
// look at the catalog.
//
// Content types that no revision has pass unchanged, and so do members that clients of
// every revision ignore, such as title, icons and annotations. [Counts] counts every
// replacement.
//
// The package is pure. Its functions take and return valid JSON, return the very slice
// that they were given and allocate nothing if nothing is replaced, and change nothing the
// second time. Bridging between eras is not their job: see package bridge.
package downlevel
