//go:build !unix

package main

import "errors"

// processorTime ends the program: only Unix says how much processor time a process has used.
func processorTime() float64 {
	check(errors.New("this system is not supported"))
	return 0
}
