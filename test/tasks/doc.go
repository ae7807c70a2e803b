// Package tasks runs tools that are tasks at their upstream through the gateway, for clients of both eras: those that carry tasks themselves, and
// those that know nothing of them and get the result when it is there.
package tasks
