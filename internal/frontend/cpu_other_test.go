//go:build !unix

package frontend

// cpuTime returns 0, because this system has no such value.
func cpuTime() int64 { return 0 }
