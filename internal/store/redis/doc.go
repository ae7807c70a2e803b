// Package redis is a store in Redis or Valkey: in a single server, behind Sentinel, or in a Cluster.
//
// # Guarantees
//
// A command that changes something is sent once. It is never repeated after an error, because the server
// may have executed it. Blocking reads use separate connections, so that other operations never wait for
// them. In a Cluster each key is changed in one step, but several limits of one Acquire are taken one
// after the other, and given back if a later one is reached.
//
// # Keys
//
// A key is <prefix>:v1:<kind>:<digest of the name>. A limit has two, <key>:rate and <key>:running, whose
// digest is in braces, so that a Cluster keeps both at one server. Every key has a time to live.
package redis
