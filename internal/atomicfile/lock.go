package atomicfile

import (
	"context"
	"os"
	"time"
)

// lockPause is the time between attempts to take a lock that another process holds.
const lockPause = 20 * time.Millisecond

// Lock waits until no other process, and no other goroutine, has the lock of a file, and returns the
// function that releases it. A process that reads a file, changes its content and replaces it holds
// the lock meanwhile. The lock is the file with the suffix ".lock", which stays: two processes could
// lock different files if it were removed. A process that ends releases its locks.
func Lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(name+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		// A file system that takes nothing now has the lock of an earlier time.
		var readable error
		if f, readable = os.Open(name + ".lock"); readable != nil {
			return nil, err
		}
	}
	for {
		ok, err := tryLock(f)
		switch {
		case ok:
			return func() { _ = f.Close() }, nil
		case err != nil:
			_ = f.Close()
			return nil, err
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		}
	}
}
