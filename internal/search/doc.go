// Package search finds tools by words.
//
// [Analyze] makes a [Doc] of a tool: its words, by the field in which they are. A Doc depends on
// the tool alone, so it is made once and kept while the tool does not change. [New] makes an
// [Index] of documents; it is cheap beside Analyze. [Index.Search] ranks the documents of the
// index for a query by BM25F.
//
// An index is made of the documents that one view shows. Nothing is shared between indexes
// but the documents themselves: ranks, scores, totals and the time of a search depend only on
// the documents of the index. Documents that the view hides can therefore not be found or guessed.
//
// Words are split at case, digits and punctuation, written in lower case, and stemmed as
// English. Abbreviations count as the words that they stand for. Text in scripts without
// spaces is split into pairs of characters. Words that say similar things (create, add, new)
// find each other with less weight. The name of a server counts alike for all of its tools,
// and a tool that does what a query asks for (read, create, update, delete, run or stop)
// counts more. docs/search.md has what that is worth.
//
// Tools and queries are hostile: texts, words and fields are bounded, and all costs are linear
// in the text that is looked at. The package is pure. A Doc and an Index are immutable and can
// be used by several goroutines at once.
package search
