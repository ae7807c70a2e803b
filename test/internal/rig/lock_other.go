//go:build !unix

package rig

import (
	"errors"
	"os"
)

// lockFile fails. These tests run on Linux; on other systems they only have to compile.
func lockFile(*os.File) error { return errors.ErrUnsupported }
