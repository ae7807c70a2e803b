// Package atomicfile replaces files as a whole: a reader sees the old file or the new one, never a part. Processes that
// change one file take turns with [Lock].
package atomicfile
