// Package observe reads from outside what a running gateway does: its admin pages and metrics, its merged list of tools, and the resources that it
// holds. Tests use it to verify that nothing leaks.
package observe
