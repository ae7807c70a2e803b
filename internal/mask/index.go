package mask

import (
	"strings"
	"sync"
	"sync/atomic"
)

// index finds texts within other texts. The cost of adding a text, and of looking for all of them, does not depend
// on how many there are. The methods may be called concurrently.
type index struct {
	endings [1 << 16 / 64]atomic.Uint64 // one bit for each hash of an ending, see endingBit

	mu    sync.RWMutex
	texts map[string][]string // by their endings
	count int
	bytes int
}

func newIndex() *index { return &index{texts: make(map[string][]string)} }

// endingBytes is the length of the ending of a text by which it is found. Beginnings would not do: those of many
// tokens are equal. No text is shorter.
const endingBytes = 4

// endingBit returns the bit that stands for an ending.
func endingBit(s string) (word, bit uint32) {
	h := (uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24) * 2654435761 >> 16
	return h / 64, h % 64
}

func (x *index) add(text string) {
	ending := text[len(text)-endingBytes:]
	x.mu.Lock()
	defer x.mu.Unlock()
	x.texts[ending] = append(x.texts[ending], text)
	x.count, x.bytes = x.count+1, x.bytes+len(text)
	word, bit := endingBit(ending)
	x.endings[word].Or(1 << bit)
}

// contains reports whether a text was added.
func (x *index) contains(text string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, t := range x.texts[text[len(text)-endingBytes:]] {
		if t == text {
			return true
		}
	}
	return false
}

// span is a part of a text, from one byte to before another one.
type span struct{ from, to int }

// find appends the places of the texts in s. Most texts contain none, which costs no memory and no lock.
func (x *index) find(s string, found []span) []span {
	for end := endingBytes; end <= len(s); end++ {
		if word, bit := endingBit(s[end-endingBytes : end]); x.endings[word].Load()>>bit&1 != 0 {
			if longest := x.longest(s[:end]); longest > 0 {
				found = append(found, span{end - longest, end})
			}
		}
	}
	return found
}

// longest returns the length of the longest text at the end of s, 0 for none.
func (x *index) longest(s string) (n int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, t := range x.texts[s[len(s)-endingBytes:]] {
		if len(t) > n && strings.HasSuffix(s, t) {
			n = len(t)
		}
	}
	return n
}
