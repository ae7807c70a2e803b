// Package canonical says which of all spellings of a URI is the canonical one, and why
// another spelling is not.
//
// Servers read URIs in different ways, so a rule about one spelling says little about
// the others. Policy therefore judges an unlisted resource only in the canonical
// spelling. A URI is canonical if
//
//   - it has at most [MaxBytes] bytes, all of them ASCII, and no fragment;
//   - scheme and host are in lower case, the host has no dot at its end, no address in
//     another than its usual form, and no percent-encoding; there is no user, no
//     empty, default or zero-padded port, and no query right behind the host (RFC 3986,
//     6.2.2 and 6.2.3);
//   - exactly those characters are percent-encoded that have to be, in upper case, and
//     the slash, the backslash, the percent sign and control characters not at all;
//   - what is encoded is UTF-8 in NFC, without invisible characters and without
//     characters that stand for a slash, a backslash, a percent sign or a dot segment;
//   - no segment of its path is empty but the last, is a dot segment, or ends in a dot
//     or a space; parameters after a semicolon stand in the last segment only;
//   - file: has an empty host and no query, and http:, https:, ws:, wss: and ftp: have
//     a host. A prefix of the scheme, up to a plus sign, changes nothing of that.
//
// Checking and spelling cost time linear in the URI. The package is pure.
package canonical
