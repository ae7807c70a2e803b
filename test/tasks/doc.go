// Package tasks calls tools that run as tasks at their upstream through the gateway, with clients of both eras: clients that support tasks, and clients
// that do not and wait for the result.
package tasks
