package demo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Bounds of a book: anyone who reaches the gateway can fill it.
const (
	maxNotes     = 200
	maxTitleLen  = 80        // runes
	maxBodyBytes = 16 * 1024 // bytes
)

// note is one entry. It is a value, and may be kept.
type note struct {
	Slug  string // unique, [a-z0-9-]+, made from the title
	Title string
	Body  string // Markdown
}

// uri is the URI of the note as a resource.
func (n note) uri() string { return collectionURI + n.Slug }

// book is the notes' storage. Its methods may be called concurrently.
type book struct {
	mu    sync.RWMutex
	notes map[string]note // by slug
}

func newBook(notes ...note) *book {
	b := &book{notes: make(map[string]note)}
	for _, n := range notes {
		b.notes[n.Slug] = n
	}
	return b
}

// put stores a note under the slug of its title. An existing note with that slug
// is replaced, and replaced reports that.
func (b *book) put(title, body string) (n note, replaced bool, err error) {
	title = strings.TrimSpace(title)
	slug := slugify(title)
	switch {
	case slug == "":
		return note{}, false, fmt.Errorf("title %q has no letter or digit: a note needs one to be named by", title)
	case utf8.RuneCountInString(title) > maxTitleLen:
		return note{}, false, fmt.Errorf("title has %d characters, at most %d are allowed", utf8.RuneCountInString(title), maxTitleLen)
	case len(body) > maxBodyBytes:
		return note{}, false, fmt.Errorf("body has %d bytes, at most %d are allowed", len(body), maxBodyBytes)
	}
	n = note{Slug: slug, Title: title, Body: body}

	b.mu.Lock()
	defer b.mu.Unlock()
	_, replaced = b.notes[slug]
	if !replaced && len(b.notes) >= maxNotes {
		return note{}, false, fmt.Errorf("the book is full: it holds at most %d notes", maxNotes)
	}
	b.notes[slug] = n
	return n, replaced, nil
}

// get finds a note by its slug.
func (b *book) get(slug string) (note, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	n, ok := b.notes[slug]
	return n, ok
}

// all returns the notes ordered by slug.
func (b *book) all() []note {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.SortedFunc(maps.Values(b.notes), func(x, y note) int { return cmp.Compare(x.Slug, y.Slug) })
}

// search returns the notes whose title or body contains query, in any case,
// ordered by slug.
func (b *book) search(query string) []note {
	query = strings.ToLower(query)
	return slices.DeleteFunc(b.all(), func(n note) bool {
		return !strings.Contains(strings.ToLower(n.Title), query) && !strings.Contains(strings.ToLower(n.Body), query)
	})
}

// slugify turns a title into [a-z0-9-]*, so that a note's URI needs no escapes.
// Letters outside ASCII become dashes like every other rune.
func slugify(title string) string {
	dashed := strings.Map(func(r rune) rune {
		r = unicode.ToLower(r)
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, title)
	return strings.Join(strings.FieldsFunc(dashed, func(r rune) bool { return r == '-' }), "-")
}
