package catalog

import (
	"hash/maphash"
	"iter"
	"slices"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/search"
	"mcpgateway/internal/wire"
)

// ToolIndex finds tools of a view by words. It knows nothing of other tools. It is immutable.
type ToolIndex struct {
	*search.Index
	docs  []*search.Doc
	tools []*Entry // in the order of docs
}

// Tool returns the tool of a document by its place in the index.
func (x *ToolIndex) Tool(i int) *Entry { return x.tools[i] }

const (
	// maxIndexed bounds how many documents the kept indexes of a table have together, at about 1 KB
	// each. The index that was made last may exceed it.
	maxIndexed = 100_000
	// maxWarmed bounds how many documents are indexed before a search needs them, at about 4 µs each.
	maxWarmed = 50_000
)

// toolIndexes keeps the indexes of a table's listings, and drops those that were not used for longest.
type toolIndexes struct {
	mu    sync.Mutex
	kept  []*keptIndex // the last used one at the end
	total int          // of documents
}

type keptIndex struct {
	of    *View // one of the views with these listings
	index *ToolIndex
}

// get returns the kept index of a view's listings, nil for none.
func (k *toolIndexes) get(v *View) *ToolIndex {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, x := range k.kept {
		if x.of.listings == v.listings {
			copy(k.kept[i:], k.kept[i+1:])
			k.kept[len(k.kept)-1] = x
			return x.index
		}
	}
	return nil
}

// keep keeps an index.
func (k *toolIndexes) keep(v *View, x *ToolIndex) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(k.kept, &keptIndex{v, x})
	k.total += weight(x)
	for k.total > maxIndexed && len(k.kept) > 1 {
		k.total -= weight(k.kept[0].index)
		k.kept = slices.Delete(k.kept, 0, 1)
	}
}

// weight is what an index counts: also an empty one takes memory.
func weight(x *ToolIndex) int { return len(x.docs) + 100 }

// ToolIndex returns the index of the tools that the caller may call. It is made at its first use,
// and views with the same listings share it.
func (v *View) ToolIndex() *ToolIndex { return v.toolIndex(nil) }

// toolIndex returns the index, and takes it over from before if its documents are the same.
func (v *View) toolIndex(before *ToolIndex) *ToolIndex {
	kept := &v.table.indexes
	if x := kept.get(v); x != nil {
		return x
	}
	v.indexing.Lock()
	defer v.indexing.Unlock()
	if x := kept.get(v); x != nil {
		return x
	}
	tools := v.Tools()
	docs := make([]*search.Doc, len(tools))
	for i, e := range tools {
		docs[i] = v.table.opts.Docs.doc(e)
	}
	x := &ToolIndex{docs: docs, tools: tools}
	if before != nil && slices.Equal(before.docs, docs) {
		x.Index = before.Index
	} else {
		x.Index = search.New(docs)
	}
	kept.keep(v, x)
	return x
}

// Warm prepares searches. It makes the documents of tools that lists leave out, and the indexes
// that were in use in the table before, for the same callers, so that their next search does not
// wait. Unchanged documents and indexes cost little.
func (t *Table) Warm(before *Table) {
	for _, e := range t.entries[call.Tool] {
		if e.unlisted && t.opts.Docs != nil {
			t.opts.Docs.doc(e)
		}
	}
	before.indexes.mu.Lock()
	used := slices.Clone(before.indexes.kept)
	before.indexes.mu.Unlock()
	made := 0
	for _, k := range slices.Backward(used) { // the last used one first
		caller := k.of.rights.Caller()
		x := t.View(caller.Principal, &call.Client{Revision: caller.Revision}).toolIndex(k.index)
		if x.Index != k.index.Index {
			made += weight(x)
		}
		if made > maxWarmed {
			return
		}
	}
}

// SearchDocs returns the documents of the tools that searches of the profile may find, each with a
// function that describes the tool in words. A table whose lists leave out no tools returns
// nothing.
func (t *Table) SearchDocs() iter.Seq2[*search.Doc, func() string] {
	return func(yield func(*search.Doc, func() string) bool) {
		if t.opts.Profile == nil || !t.opts.Profile.Searches() {
			return
		}
		for _, e := range t.entries[call.Tool] {
			if e.meta {
				continue
			}
			text := func() string { return toolOf(e, e.Ordinary().Raw, e.part.Rules().Tags).Text() }
			if !yield(t.opts.Docs.doc(e), text) {
				return
			}
		}
	}
}

// Docs keeps the search documents of tools from one table to the next. Tables may share it. A nil
// Docs keeps nothing. It may be used concurrently.
type Docs struct {
	mu      sync.Mutex
	current map[docKey]*search.Doc
	before  map[docKey]*search.Doc // that no table has used since the last Begin
}

// docKey is a hash of everything that a document is made of. Tools with the same key are taken for
// the same: two hashes of 64 bits with different seeds are equal for no two tools.
type docKey [2]uint64

var docSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// Begin begins a new round of tables: documents that no table has used since the call of Begin
// before are dropped.
func (d *Docs) Begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before, d.current = d.current, make(map[docKey]*search.Doc, len(d.current))
}

// doc returns the document of a tool.
func (d *Docs) doc(e *Entry) *search.Doc {
	whole := e.Ordinary()
	rules := e.part.Rules()
	tags := rules.Tags
	if own := rules.override(e.Kind, e.Native).Tags; len(own) > 0 {
		tags = append(tags[:len(tags):len(tags)], own...)
	}
	if d == nil {
		return analyze(e, whole.Raw, tags)
	}
	var key docKey
	for i, seed := range docSeeds {
		var h maphash.Hash
		h.SetSeed(seed)
		for _, s := range append([]string{e.Public, e.part.Upstream()}, tags...) {
			h.WriteString(s)
			h.WriteByte(0)
		}
		h.Write(whole.Raw)
		key[i] = h.Sum64()
	}
	d.mu.Lock()
	doc := d.current[key]
	if doc == nil {
		doc = d.before[key]
	}
	d.mu.Unlock()
	if doc == nil {
		doc = analyze(e, whole.Raw, tags)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil {
		d.current = make(map[docKey]*search.Doc)
	}
	if same := d.current[key]; same != nil {
		return same
	}
	d.current[key] = doc
	return doc
}

// analyze makes the document of a tool from its whole definition.
func analyze(e *Entry, whole wire.Raw, tags []string) *search.Doc {
	return search.Analyze(toolOf(e, whole, tags))
}

func toolOf(e *Entry, whole wire.Raw, tags []string) search.Tool {
	t := search.ToolOf(whole)
	t.Name, t.Upstream, t.Tags = e.Public, e.part.Upstream(), tags
	return t
}
