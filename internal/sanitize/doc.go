// Package sanitize removes terminal escapes, control characters and invisible characters
// from text that models read, and leaves every other byte as it is written.
//
// An invisible character stays if the script or emoji around it needs it, one at a time.
// Removing something never produces text that would have to be removed in turn.
//
// The package is pure. Its functions take and return valid JSON, do not change their
// arguments, and return the very slice that they were given if nothing is removed.
package sanitize
