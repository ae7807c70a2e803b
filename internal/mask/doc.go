// Package mask hides the secrets of the configuration in text that others wrote:
// upstreams that print their environment, peers that repeat a header in an error.
//
// It protects against accidents. An upstream that wants to give a secret away can encode
// it in a form that this package does not know.
package mask
