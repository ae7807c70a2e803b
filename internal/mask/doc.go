// Package mask hides the secrets of the configuration in text of upstreams and peers: an
// upstream may print its environment, and a peer may repeat a header in an error.
//
// It protects against accidents. An upstream that wants to disclose a secret can encode
// it in a form that this package does not know.
package mask
