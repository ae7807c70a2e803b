// Package gzipped makes gzip members (RFC 1952) of texts.
//
// A [Text] is compressed once. It can then be the end of any number of members, each
// with another beginning:
//
//	gzip header │ beginning, stored │ the text, compressed once │ CRC-32 and length
//
// Every answer with one page of a list ends with the same bytes, and begins with the id
// of its request. [Compress] makes a member of a text that is sent once.
//
// A result is always one member of one deflate stream, because some clients decode only
// the first of several members. The beginning is never compressed together with the
// text, so the length of a member reveals nothing about similarities between the two.
//
// The package is pure. A Text may be used concurrently.
package gzipped
