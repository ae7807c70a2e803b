// Package inproc is the transport to servers inside the process of the gateway, such as
// the demo upstreams. They speak over pipes, as a child process does.
package inproc
