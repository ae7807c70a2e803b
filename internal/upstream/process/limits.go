package process

import "fmt"

// Limits bound what a program may use. 0 means no limit.
type Limits struct {
	// Memory bounds the resident memory of the program and its descendants together, in
	// bytes. Memory that processes share counts once. Only Linux supports it.
	Memory int64
	// Files bounds the open files of each process. Windows does not support it.
	Files int
}

// MemoryError says that a program was ended because it used too much memory.
type MemoryError struct{ Used, Limit int64 } // in bytes

func (e *MemoryError) Error() string {
	return fmt.Sprintf("it used %s of memory, and limits.memory allows %s", mebibytes(e.Used), mebibytes(e.Limit))
}

func mebibytes(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }
