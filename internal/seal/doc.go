// Package seal makes texts that clients keep for the gateway and hand back, such as request
// states and session ids, and bytes that a store keeps. Those who keep them can neither read nor change
// nor forge what is in them.
//
// # Guarantees
//
// A [Sealer] opens only what it has sealed, or another Sealer with one of its keys and the same
// purpose. Two texts with the same content differ. One content has exactly one text for each
// salt: a text with other characters does not open. Sealer does not know principals, expiry and
// use: its callers seal and check these. All methods may be called concurrently.
package seal
