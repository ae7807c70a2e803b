// Package matrix lets real clients use everything that the protocol can do with real servers, through the real gateway, in every combination.
//
// expected.md is the table of what works, for people and for the test: a cell holds a mark for each client, and the letter of a reason where one of
// the ends cannot express a feature. The test prints the table as it is found, and fails where it differs in either direction. README.md
// carries the same text.
//
// Every server has a gateway of its own, and is used by one client after another, so that what one client changes is told to that client.
package matrix
