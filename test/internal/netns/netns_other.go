//go:build !linux

package netns

import (
	"fmt"
	"os"
)

// Enter ends the test binary, because only Linux has network namespaces. On other systems these tests only have to compile.
func Enter(func() ([]string, error)) {
	fmt.Fprintln(os.Stderr, "cannot run these tests: they need a Linux network namespace")
	os.Exit(1)
}

// Port panics, because there is no namespace.
func Port() int { panic("netns.Port needs a Linux network namespace") }

// Addr panics, because there is no namespace.
func Addr() string { panic("netns.Addr needs a Linux network namespace") }
