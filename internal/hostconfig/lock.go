package hostconfig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mcpgateway/internal/atomicfile"
)

// lockTimeout bounds the wait for another process that edits the file. An edit takes milliseconds, unless it asks gateways
// that run for their addresses.
const lockTimeout = 30 * time.Second

// Lock waits until no other process, and no other goroutine, edits a file, and returns the function that lets others edit it;
// calls after the first do nothing. Who reads a file, changes its content and replaces it holds the lock meanwhile, so no change
// is lost. The lock is a file in a folder that all of them share: beside the file of a host nothing is left. The file need not
// exist. If the folder cannot be used, Lock does not wait, and the methods of [File] alone notice a change.
func Lock(ctx context.Context, folder, name string) (unlock func(), err error) {
	none := func() {}
	if folder == "" || os.MkdirAll(folder, 0o700) != nil {
		return none, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	digest := sha256.Sum256([]byte(resolved(target(name))))
	unlock, err = atomicfile.Lock(ctx, filepath.Join(folder, hex.EncodeToString(digest[:16])))
	switch {
	case err == nil:
		return unlock, nil
	case ctx.Err() == nil:
		return none, nil
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("another gateway command has edited %s for %s; end it, or try again", name, lockTimeout)
	}
	return nil, err
}

// resolved is an absolute path without links in its folders, of which the last ones may not exist yet.
func resolved(name string) string {
	full, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	rest := filepath.Base(full)
	for at := filepath.Dir(full); ; at = filepath.Dir(at) {
		if folder, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(folder, rest)
		}
		if at == filepath.Dir(at) {
			return full
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}
