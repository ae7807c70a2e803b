// Package conform brings what upstreams send into a form that its reader can
// take.
//
//	an upstream's result ▶ [Subject.Check] ▶ [Sanitize.Result] ▶ [Contents], [Embedded] ▶ [DownTo] ▶ the client
//	an upstream's items  ▶ [Lists.Check], which cleans them too ▶ [ItemDownTo], by page
//	a client's arguments ▶ [RefuseArguments] ▶ the upstream
//
// # Faults
//
// A result or a list item is held against what the upstream's revision demands of
// it. Rules for every object of the protocol say what its members are; one walk
// over the document collects a [Finding] for whatever differs, and where the mode
// is [Repair] makes the document that mends it. What can be told of the upstream's
// intention is mended, the rest is not: a [Finding] says which. A content block
// that no client could take becomes a text block with the same JSON. A result
// without faults comes back as the very slice that was given, and costs no
// allocation.
//
// Where a result is refused, which the strict mode does for every fault but those
// against recommendations, and repair where strict clients would throw on what is
// left, a tool's result becomes one with isError, which a model sees; other
// methods get an error.
//
// List items that clients throw a whole list away for are unusable in every mode but
// [Off], unless [Repair] has mended them: for what they lack, and for members of
// the wrong type, null among them. What was found out about an item is kept from one table to
// the next: see [Schemas].
//
// Rules stand in tables, by what they are about; the walk, the faults and what
// becomes of them are the same for all:
//
//	rules_item.go          items of lists: tools, resources, templates, prompts
//	rules_schema.go        the schemas of a tool
//	rules_result.go        the result of a tool, structuredContent
//	rules_block.go         content blocks; rules_media.go: images and sounds
//	rules_prompt.go        prompts and their messages
//	rules_read.go          what is read, completions; rules_contents.go: contents of resources
//	rules_annotations.go   annotations and icons, wherever they stand
//	values.go              strings, numbers, URIs, MIME types, _meta
//	object.go, parts.go    the walk over an object, and the object that mends it
//	fault.go               the faults
//	subject.go, refuse.go  what becomes of the faults of a result
//	listitem.go            what becomes of those of an item
//
// # Schemas
//
// A [Schema] is compiled when it is first needed. Nothing it refers to is ever
// loaded. Its size is bounded before it is compiled, and a validation counts its
// steps and gives up after some 100,000, a tenth of a second: [Unchecked]. Patterns
// run in linear time; those that cannot, or that would cost much to compile, match
// everything. What the schemas of an upstream may cost to compile is bounded, too: a
// [Budget].
//
// # Sanitising
//
// [Sanitize] takes terminal escapes, control characters and invisible characters
// out of text that models read, and leaves every other byte as it is written. An
// invisible character stays where a script or an emoji needs it, one at a time.
// What is taken out leaves nothing behind that would have to be taken out in turn.
//
// # Enrichment
//
// The draft SEP-2093 gives contents of resources the metadata that lists have of
// them. [Contents] adds what is missing and known, and never changes what is there.
// Sizes are counted in the text as it is written; nothing is decoded for them.
// [Embedded] and [EmbeddedAsk] show the annotations of embedded resources where
// older readers look for them, and where the draft has them. [Typed] tells the type
// of a resource where its MIME type does.
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
// The package is pure and keeps no state but that of a [Schemas]: all of it is safe
// for concurrent use.
// It does not bridge eras: results that ask for input, and questions to clients,
// belong to others.
package conform
