package hostconfig

import "strings"

// SnippetWithKey is [Host.Snippet] of an entry with a URL, with the header of [Host.KeyHeader] beside the URL.
func (h Host) SnippetWithKey(name, url string) ([]byte, error) {
	text, err := h.Snippet(name, Entry{URL: url})
	if err != nil {
		return nil, err
	}
	before, after, _ := strings.Cut(string(text), quoteJSON(url)) // it is in every entry with a URL
	line := before[strings.LastIndexByte(before, '\n')+1:]
	between := "\n" + line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	if !h.toml {
		between = "," + between
	}
	return []byte(before + quoteJSON(url) + between + h.KeyHeader() + after), nil
}
