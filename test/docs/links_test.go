package docs

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeSpan   = regexp.MustCompile("`[^`]*`")
	inlineLink = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?: "[^"]*")?\)`)
	definition = regexp.MustCompile(`^\[[^\]]+\]:\s+(\S+)`)
)

// TestLinks follows every link to a file of the repository.
func TestLinks(t *testing.T) {
	docs := documents(t)
	for _, doc := range docs {
		for _, l := range doc.prose {
			for _, target := range targets(l.text) {
				follow(t, docs, doc, l.place, target)
			}
		}
	}
}

// TestIndex checks that the README.md of each folder below docs links to every document of its folder.
func TestIndex(t *testing.T) {
	docs := documents(t)
	named := make(map[string]bool)
	for name, doc := range docs {
		folder, file := path.Split(name)
		if !strings.HasPrefix(folder, "docs/") || file != "README.md" {
			continue
		}
		for _, l := range doc.prose {
			for _, target := range targets(l.text) {
				file, _, _ := strings.Cut(target, "#")
				named[path.Join(folder, file)] = named[path.Join(folder, file)] || path.Dir(file) == "."
			}
		}
	}
	for name := range docs {
		folder, file := path.Split(name)
		if strings.HasPrefix(folder, "docs/") && file != "README.md" && !named[name] {
			t.Errorf("%sREADME.md has no link to %s", folder, name)
		}
	}
}

func targets(text string) (all []string) {
	text = codeSpan.ReplaceAllString(text, "")
	for _, m := range inlineLink.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	if m := definition.FindStringSubmatch(text); m != nil {
		all = append(all, m[1])
	}
	return all
}

func follow(t *testing.T, docs map[string]document, from document, place, target string) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Errorf("%s: the link %s is not a valid address: %v", place, target, err)
		return
	}
	if u.Scheme != "" || u.Host != "" {
		return
	}
	file := from.path
	if u.Path != "" {
		file = path.Join(path.Dir(from.path), u.Path)
	}
	if _, err := os.Stat(filepath.Join(root, file)); err != nil || strings.HasPrefix(file, "..") {
		t.Errorf("%s: the link %s leads to a missing file", place, target)
		return
	}
	if u.Fragment == "" {
		return
	}
	if doc, ok := docs[file]; !ok || !doc.anchors[u.Fragment] {
		t.Errorf("%s: the link %s: %s has no heading for #%s", place, target, file, u.Fragment)
	}
}
