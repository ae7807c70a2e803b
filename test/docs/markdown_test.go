package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// root is the root folder of the repository.
const root = "../.."

// document is a Markdown file.
type document struct {
	path    string // relative to the repository
	blocks  []block
	prose   []line // lines outside of blocks
	anchors map[string]bool
}

// block is the text between two fences.
type block struct {
	place string // file and line of the text's first line
	kind  string // the first word after the fence
	rest  string // the other words
	text  string
	files map[string]string // the document's blocks with a file name, by that name
}

type line struct {
	place, text string
}

// documents returns all documents of the repository, by path.
func documents(t *testing.T) map[string]document {
	t.Helper()
	found := make(map[string]document)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		doc, err := read(name, string(text))
		found[name] = doc
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var (
	fence   = regexp.MustCompile("^( *)(`{3,}|~{3,})(.*)$")
	heading = regexp.MustCompile(`^#{1,6} +(.*?)[ #]*$`)
	anchor  = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
)

// read parses a document.
func read(path, text string) (document, error) {
	doc := document{path: path, anchors: make(map[string]bool)}
	files := make(map[string]string)
	var open *block
	var indent, mark string
	for i, s := range strings.Split(text, "\n") {
		place := fmt.Sprintf("%s:%d", path, i+1)
		m := fence.FindStringSubmatch(s)
		switch {
		case open != nil && m != nil && strings.HasPrefix(m[2], mark) && strings.TrimSpace(m[3]) == "":
			if strings.HasSuffix(open.rest, ".yaml") {
				files[open.rest] = open.text
			}
			doc.blocks = append(doc.blocks, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(s, indent) + "\n"
		case m != nil:
			kind, rest, _ := strings.Cut(strings.TrimSpace(m[3]), " ")
			open = &block{place: fmt.Sprintf("%s:%d", path, i+2), kind: kind, rest: strings.TrimSpace(rest), files: files}
			indent, mark = m[1], m[2]
		default:
			doc.prose = append(doc.prose, line{place, s})
			if m := heading.FindStringSubmatch(s); m != nil {
				doc.anchors[doc.slug(m[1])] = true
			}
			for _, m := range anchor.FindAllStringSubmatch(s, -1) {
				doc.anchors[m[1]] = true
			}
		}
	}
	if open != nil {
		return doc, fmt.Errorf("%s: the block has no end", open.place)
	}
	return doc, nil
}

var linkText = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)

// slug returns GitHub's anchor of a heading.
func (d document) slug(heading string) string {
	text := linkText.ReplaceAllString(heading, "$1")
	slug := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsNumber(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(text))
	if !d.anchors[slug] {
		return slug
	}
	for i := 1; ; i++ {
		if next := fmt.Sprintf("%s-%d", slug, i); !d.anchors[next] {
			return next
		}
	}
}
