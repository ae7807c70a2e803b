// Package results keeps long results of tools and reads parts of them.
//
// A model pays for every byte of a result, and usually needs only a part. [Shorten] replaces a
// long result by its beginning, an outline of its structure and a link. The whole text is kept in
// a [Store] as a [Document], for a limited time and only for its owner. [Document.Read] returns
// the parts that a [Query] asks for: lines, a range of bytes, the value at a JSON Pointer (RFC
// 6901), or the lines that match a regular expression (RE2).
//
//	result ──Shorten──▶ Shortened{Document} ──Put──▶ id ──Result(Link)──▶ shorter result
//	gateway+result://id?lines=1-200 ──ParseURI──▶ id, Query ──Get, Read──▶ Piece
//
// The cost of each function is linear in the size of the document. Deep nesting, long lines or
// many members do not increase it. The work of a regular expression is bounded: a search that
// takes too long returns its matches so far and the place where it stopped. Searches use at most
// half of the processors.
//
// Documents are immutable, so any number of goroutines may read one. A [Memory] may be used
// concurrently.
package results
