// Package diagnose explains to the operator why there is no connection to an upstream,
// and what to do about it.
//
// Transports return the errors of this package for failed handshakes and for output
// that is not MCP. [Program] and [Remote] turn any error of a connection attempt into
// one sentence for the log, which may contain addresses, paths and output of the
// server. Clients get only the text of the error, which contains none of these.
//
// The package keeps no state. It reads the file system to explain why a program could
// not be started.
package diagnose
