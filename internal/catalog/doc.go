// Package catalog merges what many upstreams offer into one immutable table,
// and shows each caller their view of it.
//
//	[]Source ──Build──▶ Table ──View(principal)──▶ View ──Resolve──▶ Target (part, native name)
//	                                                 └──Page──▶ one page of a merged list, encoded
//
// The control loop builds a whole new [Table] whenever an upstream's catalog or
// state changes, and swaps it in; a request reads the table that it began with.
// Building sorts nothing: upstreams stand in the order of the configuration,
// and the items of each in its own.
//
// # What is listed
//
// Items are held against the specification by package conform, as the [Rules] of
// their upstream say. One that lacks what its schema requires is left out and
// reported, unless the rules turn that off: strict clients reject a whole list for
// one of those. An [Override] publishes an item under another name, with another
// description, or not at all; policy goes on judging it by its native name. Items of an upstream
// that is down are not listed, but keep their names, and these resolve: a call
// then meets the connector, which knows best whether the upstream is back.
//
// # Names that clash
//
// Within an upstream, an item that keeps its name wins over one that is renamed.
// Items of upstreams with a prefix win over those without. Among upstreams
// without, the first keeps the name, and a later one publishes the item with
// its upstream's name as prefix. What others list under a name that begins like that
// counts as a clash, too, so that it does not depend on who is up. Web addresses keep their form, so several
// upstreams may list the same one; it is listed once, and the first upstream
// that can serve it does.
//
// # Lists
//
// Pages are encoded when they are first asked for and then kept, not encoded
// per request: once for all revisions between which no list item can differ, and
// where on one page none does, these share the bytes. Only the remaining time to
// live of modern pages, and a cursor from an earlier table that points into the
// middle of a page, make for another encoding. A cursor names the last item that
// was delivered, so it survives a new table.
//
// # Metadata
//
// What lists say of a resource, or else what the first template says that can
// expand to its URI, is what [View.Metadata] answers with and [View.Enrich] fills
// the contents of resources from: those of the resource that was asked for, and of
// others that are listed. [View.Children] lists what stands directly below a URI by
// its path. A list that an upstream makes by itself is [View.Adopt]ed as the table
// would have it (SEP-2093).
//
// # Views
//
// Callers with the same rights share a [View], and views whose lists show the same
// share these. The number of views is bounded; one that was dropped is made anew.
// A caller learns nothing of what their view lacks: not of the upstreams either
// that have nothing for them.
//
// All of it is safe for concurrent use. The package is pure: it knows no clock,
// no network and no log. It does not decide who may see what, which is up to
// policy, and not how names are made, which is up to namespace.
package catalog
