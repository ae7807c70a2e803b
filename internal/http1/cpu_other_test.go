//go:build !unix

package http1

// cpuTime returns 0: this system does not tell.
func cpuTime() int64 { return 0 }
