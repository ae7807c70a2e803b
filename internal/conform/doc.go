// Package conform checks what upstreams send against the specification, and repairs it.
//
//	an upstream's result ▶ [ResultChecker.Check] ▶ a [Verdict]
//	an upstream's item   ▶ [ItemChecker.Check] ▶ a [CheckedItem], sanitized
//
// A result or a list item is checked against the revision that the upstream speaks. Rules
// say which members every object of the protocol has; one walk over the document collects
// its violations and, in the mode [Repair], builds the repaired document. Only violations
// with one correct form are repaired: a [Violation] says whether it was repaired. A content
// block that no client could read becomes a text block with the same JSON. A result without
// violations is returned as the same slice, without an allocation.
//
// The mode [Strict] refuses results, for every violation except those of recommendations.
// [Repair] refuses a result if strict clients would throw on the remaining violations. The
// result of a tool is then replaced by a result with isError, which a model sees; other
// methods return an error.
//
// An item for which clients refuse a whole list is unusable in every mode except [Off],
// unless [Repair] has repaired it. A [Cache] keeps the checks of items from one build of
// the catalog to the next.
//
// The rules are tables, one file for each kind of object:
//
//	rules_item.go          items of lists: tools, resources, templates, prompts
//	rules_schema.go        the schemas of a tool
//	rules_result.go        the result of a tool, structuredContent
//	rules_block.go         content blocks; rules_media.go: images and audio
//	rules_prompt.go        prompts and their messages
//	rules_read.go          results of reads, completions; rules_contents.go: contents of resources
//	rules_annotations.go   annotations and icons of any object
//	values.go              strings, numbers, URIs, MIME types, _meta
//
// The package is pure. Everything is safe for concurrent use.
package conform
