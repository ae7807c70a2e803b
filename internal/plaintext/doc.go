// Package plaintext answers questions about text that several packages ask: whether a
// character is invisible, how a text from outside is shortened, and which known name a
// misspelled one is closest to. The package is pure.
package plaintext
