// Package stdio is the transport to servers that are child processes and speak over
// their standard streams. Packages process and line do the work: this package starts a
// program as a [line.Link].
package stdio
