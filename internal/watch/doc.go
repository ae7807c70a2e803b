// Package watch tells when the content of files has changed.
//
// It is content that counts, not events: a file that is written with what it had
// is no change, and one that is replaced is, whichever way that was done. Editors
// write another file and rename it; Kubernetes mounts a ConfigMap as links through
// a link named ..data, and swaps that one link for all files at once. So folders
// are watched, those that the files are in and those that any link on the way to
// them is in. Where the system tells of nothing, as on some network file systems,
// the files are looked at every few seconds all the same.
//
// A Watcher may be told what to expect by any goroutine at any time; one goroutine,
// that of Run, looks. Files that are no regular files, such as pipes, are left
// alone: reading them would take away what somebody else is to read.
package watch
