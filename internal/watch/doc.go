// Package watch reports when the content of files has changed.
//
// It compares content, not events: writing a file with the same content is no change, and
// replacing it by another file is. Editors write another file and rename it. Kubernetes
// mounts a ConfigMap as links through a link named ..data, and replaces that link for all
// files at once. So the package watches folders: those of the files and those of every link
// on the way to them. Some network file systems deliver no events, so the files are also
// read every few seconds.
//
// Files that are not regular, such as pipes, are never read: that would take their content
// away from the program that needs it.
package watch
