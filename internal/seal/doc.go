// Package seal encrypts texts that clients keep for the gateway and send back, such as request states
// and session ids, and bytes in a store. Clients and the store can neither read, change nor forge the
// content.
//
// # Guarantees
//
// A [Sealer] opens only texts that it, or another Sealer with one of its keys and the same purpose, has
// sealed. Two texts with the same content differ. One content has exactly one text for each salt: a
// text with other characters does not open. Sealer does not check the principal, the expiry and
// repeated use: callers put these into the content and check them. All methods may be called
// concurrently.
package seal
