// Package canonical decides whether a URI has its canonical spelling. It returns the
// canonical spelling, and the reason why another one is not canonical.
//
// Servers read URIs in different ways, so a rule about one spelling says little about
// the others. Policy therefore judges an unlisted resource only in the canonical
// spelling. A URI is canonical if
//
//   - it has at most [MaxBytes] bytes, all of them ASCII, and no fragment;
//   - scheme and host are in lower case; the host has no dot at its end and no
//     percent-encoding, and an IP address is in its usual form; there is no user, no
//     empty, default or zero-padded port, and no query right behind the host (RFC 3986,
//     6.2.2 and 6.2.3);
//   - exactly those characters are percent-encoded that have to be, in upper case; no
//     slash, backslash, percent sign or control character is encoded;
//   - the encoded bytes are UTF-8 in NFC, without invisible characters and without
//     characters that a server may read as a slash, a backslash, a percent sign or a dot
//     segment;
//   - no segment of its path is empty, except the last one; no segment is a dot segment
//     or ends in a dot or a space; only the last one has parameters after a semicolon;
//   - file: has an empty host and no query, and http:, https:, ws:, wss: and ftp: have
//     a host. The same is true if the scheme has a prefix that ends in a plus sign.
//
// Checking and spelling cost time linear in the URI. The package is pure.
package canonical
