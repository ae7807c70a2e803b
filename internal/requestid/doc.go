// Package requestid gives every request an id, for its response, the log and the audit.
//
// A client may send an id in the header X-Request-Id, as a proxy does. An id that is not well
// formed is replaced. Ids may repeat and are not secret, so no decision may depend on them.
//
// The functions may be called concurrently.
package requestid
