// Package tokens measures what a model reads of the tools of a profile, in bytes and in tokens of the
// tokenizer o200k_base, which several models use. Its test writes the tables of docs/search.md:
//
//	go test . -update                                     # tools of the npm servers that the tests install
//	go test . -update -args -data $TMPDIR/search-data    # and of those that bench/search gathers
//
// It is a module of its own, so that the gateway does not depend on the tokenizer.
package tokens
