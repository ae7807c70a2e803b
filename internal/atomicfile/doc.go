// Package atomicfile replaces files as a whole: a reader sees the file before or after, and never half of it.
package atomicfile
