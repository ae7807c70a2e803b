// Package content contains operations on the content of results that conform,
// sanitize, downlevel and enrich share: content blocks, Base64 data, and JSON strings
// in their encoded form.
//
// The package is pure. Its functions take valid JSON and do not change their arguments.
package content
