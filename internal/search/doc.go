// Package search finds tools by words.
//
// [Analyze] makes a [Doc] of a tool: its words, by the field in which they are. A Doc depends on
// the tool alone, so it is made once and kept while the tool does not change. [New] makes an
// [Index] of documents; it is cheap beside Analyze. [Index.Search] ranks the documents of the
// index for a query by BM25F.
//
// An index contains the documents of one view. Indexes share only the documents themselves:
// ranks, scores, totals and the time of a search depend only on the documents of the index. So
// documents that the view hides cannot be found or guessed.
//
// Words are split at case, digits and punctuation, written in lower case, and stemmed as
// English. Abbreviations are expanded to whole words. Text in scripts without spaces is split
// into pairs of characters. Words with similar meaning (create, add, new) match each other with
// less weight. The name of a server counts equally for all of its tools, and a tool that does
// what a query asks for (read, create, update, delete, run or stop) counts more. docs/search.md
// has measurements.
//
// Tools and queries are hostile: texts, words and fields are bounded, and all costs are linear
// in the text that is looked at. The package is pure. A Doc and an Index are immutable and can
// be used concurrently.
package search
