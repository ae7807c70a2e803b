//go:build !unix

package rig

import (
	"errors"
	"os"
)

// lockFile fails: these tests run on Linux.
func lockFile(*os.File) error { return errors.ErrUnsupported }
