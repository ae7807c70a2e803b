// Package plaintext has functions on text for several packages: it recognizes invisible
// characters, shortens text from outside, finds the known name that is closest to a
// misspelled one, and checks values of HTTP headers. The package is pure.
package plaintext
