// Package plaintext answers questions about text that several packages ask: whether a
// character is invisible, how a text from outside is shortened, which known name a
// misspelled one is closest to, and what a header of HTTP can hold. The package is pure.
package plaintext
