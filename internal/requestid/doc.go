// Package requestid gives every request an id that its response, the log and the audit have.
//
// A client may send an id in the header X-Request-Id, as a proxy does. An id that is not well
// formed is replaced. So ids need not be unique, and are no secret: nothing may depend on them.
//
// The functions may be called by many goroutines at once.
package requestid
