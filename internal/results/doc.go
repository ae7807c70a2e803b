// Package results keeps long results of tools and reads parts of them.
//
// A model pays for every byte of a result, and mostly needs few of them. [Shorten] replaces a
// long result by its beginning, an outline of its structure and a link. The whole text stays in
// a [Store] as a [Document], for a while and for its owner alone. [Document.Read] returns the
// parts that a [Query] asks for: lines, a range of bytes, the value at a JSON Pointer (RFC 6901),
// or the lines that match a regular expression (RE2).
//
//	result ──Shorten──▶ Shortened{Document} ──Put──▶ id ──Result(Link)──▶ shorter result
//	gateway+result://id?lines=1-200 ──ParseURI──▶ id, Query ──Get, Read──▶ Piece
//
// The cost of each function is linear in the size of the document. A text with depth, long lines
// or many members costs no more, and the work of a regular expression is bounded: a search that
// takes too long returns what it found and where it stopped, and searches leave half of the
// processors to others.
//
// Documents are immutable, so any number of goroutines may read one. A [Memory] may be used by
// any number of goroutines.
package results
