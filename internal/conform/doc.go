// Package conform brings what upstreams send into a form that its reader can
// take.
//
// # Down-levelling
//
// Clients refuse a whole result, or a whole list, for one thing in it that
// their revision of the protocol does not know. What is known to be newer than
// the client's revision is therefore replaced by its nearest older form:
//
//	for clients before   what                                      becomes
//	2025-03-26           an audio block                            a text block: MIME type and size
//	2025-06-18           a resource_link block                     a text block: name, URI, description, …
//	2025-11-25           execution.taskSupport "required"          nothing: the tool can be called plainly
//	2025-11-25           notifications of tasks and elicitations   nothing; after it, too
//	2026-07-28           structuredContent that is no object       a text block with the same JSON, if none is there
//	2026-07-28           outputSchema whose type is not "object"   nothing
//	2026-07-28           true, false in properties of a tool's     {}, {"not":{}}, which mean the same
//	                     inputSchema and outputSchema
//
// The two lines about outputSchema and structuredContent belong together: a
// client that is shown only one of the two throws. They are told from what they
// are, without a look at each other, so a result needs no table.
//
// What is not known here at all, a content type of tomorrow say, passes
// untouched, and so does what clients of every revision overlook: unknown
// members such as title, icons and annotations. Everything that is replaced is
// counted in a [Tally].
//
// Functions return the very slice that they were given when nothing is to be
// replaced, and allocate nothing then. They take valid JSON and return valid
// JSON. Bringing down what has been brought down changes nothing.
//
// The package is pure and keeps no state: all of it is safe for concurrent use.
// It does not bridge eras: results that ask for input, and questions to clients,
// belong to others.
package conform
