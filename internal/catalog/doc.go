// Package catalog merges the items of many upstreams into one immutable table, and shows each
// caller a view of it.
//
//	[]Source ──Build──▶ Table ──View(principal)──▶ View ──Resolve──▶ Target (part, native name)
//	                                                 └──Page──▶ one page of a merged list, encoded
//
// The control loop builds a new [Table] whenever the catalog or the state of an upstream
// changes, and swaps it in. A request uses the table that it began with. Upstreams are in
// the order of the configuration, and the items of an upstream in its own order.
//
// # Items
//
// Package conform checks items by the [Rules] of their upstream. An item that lacks a required
// member is left out and reported, unless the rules turn that off: strict clients reject a whole
// list because of one such item. An [Override] publishes an item under another name or with
// another description, or hides it; policy still decides by its native name. Items of an upstream
// that is down are not listed, but their names resolve, because only the connector knows whether
// the upstream is back.
//
// # Names that clash
//
// Within an upstream, an item that keeps its name takes precedence over an item that an override
// renames. Items of upstreams with a prefix take precedence over items of upstreams without a
// prefix. Among upstreams without a prefix the first one keeps the name; later ones publish the
// item with the name of the upstream as prefix. Such names are reserved, so that a name does not
// depend on which upstreams are up. Several upstreams may list the same web address, which is
// never renamed: it is listed once, and the first upstream that is up serves it.
//
// # Own items
//
// A profile may have items of the gateway itself. They have no prefix, take precedence over all
// other names, come first in lists, and are allowed to everyone. They have no upstream:
// [View.Parts] and [Table.Parts] leave them out, and they do not change the freshness of a view.
// A URI that begins like an own template resolves to the gateway.
//
// # Tools that are not listed
//
// A profile may list only a few of its tools. The others can be called too, [View.Tools] contains
// them, and [View.ToolIndex] finds them.
//
// # Lists
//
// Pages are encoded at their first use and kept. Revisions with the same form of items
// share an encoding, and equal pages share their bytes. A page is encoded again if the
// remaining time to live of a modern page has changed, or if a cursor of an earlier table
// points into the middle of it. A cursor names the last delivered item, so it stays valid
// in a new table.
//
// # Metadata
//
// [View.Describe] describes a resource by its list item, or by the first template that
// matches its URI. [View.Metadata] and [View.Enrich] use that description. [View.Children]
// lists the resources directly below a URI by their paths. [View.Adopt] treats a list that
// an upstream sends for one collection like lists of the table (SEP-2093).
//
// # Views
//
// Callers with the same rights share a [View], and views with the same listings share these. The
// number of views is bounded; a dropped view is built again. A caller learns nothing about items
// outside its view, nor about upstreams without an item in its view.
//
// All types are safe for concurrent use. The package is pure: it has no clock, network or log.
// Package policy decides who may see an item, and package namespace makes its name.
package catalog
