// Package mask hides secrets in text of upstreams and peers: an upstream may print its
// environment, and a peer may repeat a header in an error. It hides the secrets of the
// configuration, the tokens that the gateway obtained for upstreams, and the gateway's API
// keys by their form.
//
// It protects against accidents. An upstream that wants to disclose a secret can encode
// it in a form that this package does not know.
package mask
