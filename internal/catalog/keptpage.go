package catalog

import (
	"sync"
	"sync/atomic"
)

// keptPage is the place of one encoding of a page.
type keptPage struct {
	encoded atomic.Pointer[encoded] // nil if none is kept
	used    atomic.Bool             // since the last look of keptPages

	// size and listed belong to keptPages.
	size   int
	listed bool
}

// load returns the kept encoding, nil for none.
func (k *keptPage) load() *encoded {
	enc := k.encoded.Load()
	if enc != nil && !k.used.Load() { // most pages are in use; reading shares the cache line
		k.used.Store(true)
	}
	return enc
}

// keptPages bounds the bytes of the pages that a table keeps: callers with different rights
// have different pages of the same items. A page that was not used for a while is dropped,
// and encoded again at its next use.
type keptPages struct {
	limit int // bytes, which the page that was kept last may exceed

	mu    sync.Mutex
	bytes int
	pages []*keptPage // a ring that begins with the page that is looked at next
}

const (
	// leastKeptPages and keptPerByte bound the kept pages of a table: by so many bytes, or by
	// so many times the size of its items if that is more.
	leastKeptPages = 64 << 20
	keptPerByte    = 4
	// keptPageSize is the memory of a kept page beside its bytes.
	keptPageSize = 512
)

// keep keeps an encoding in the place k, and returns it. The compressed form of a page is
// not counted: it is never longer than the page, and mostly a tenth of it.
func (p *keptPages) keep(k *keptPage, enc *encoded) *encoded {
	p.mu.Lock()
	defer p.mu.Unlock()
	k.encoded.Store(enc)
	size := len(enc.Raw) + keptPageSize
	p.bytes += size - k.size
	k.size = size
	if !k.listed {
		k.listed = true
		p.pages = append(p.pages, k)
	}
	for spared := 0; p.bytes > p.limit && spared < 2*len(p.pages); { // the first round may only find pages in use
		next := p.pages[0]
		p.pages = p.pages[1:]
		if next == k || next.used.Swap(false) {
			p.pages = append(p.pages, next)
			spared++
			continue
		}
		p.drop(next)
	}
	return enc
}

// drop drops a page that is no longer in the ring.
func (p *keptPages) drop(k *keptPage) {
	k.encoded.Store(nil)
	p.bytes -= k.size
	k.size, k.listed = 0, false
}
