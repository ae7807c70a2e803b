// Package atomicfile replaces files as a whole: a reader sees the file before or after, and never half of it. Processes that change
// one file take turns with [Lock].
package atomicfile
