//go:build !linux

package netns

import (
	"fmt"
	"os"
)

// Enter ends the test binary: only Linux has network namespaces. Elsewhere the tests that need one only have to compile.
func Enter(func() ([]string, error)) {
	fmt.Fprintln(os.Stderr, "cannot run these tests: they need a network namespace of Linux")
	os.Exit(1)
}

// Port panics: there is no namespace.
func Port() int { panic("netns.Port needs a network namespace of Linux") }

// Addr panics: there is no namespace.
func Addr() string { panic("netns.Addr needs a network namespace of Linux") }
