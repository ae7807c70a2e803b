package credentials

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// lockPause is the time between attempts to take a lock that another process holds.
const lockPause = 20 * time.Millisecond

// lock gives the caller exclusive write access to a stored value; readers are not
// blocked. A refresh token may be used once, and an authorization server that sees it
// twice may revoke the grant. In a folder, the lock holds for all processes that use the
// folder. The error is that of ctx, or an [*Error].
func (s *Store) lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		s.mu.Lock()
		held, taken := s.locks[name]
		if !taken {
			held = make(chan struct{})
			s.locks[name] = held
		}
		s.mu.Unlock()
		if !taken {
			break
		}
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	releaseLocal := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.locks[name])
		delete(s.locks, name)
	}
	if s.dir == "" {
		return releaseLocal, nil
	}
	f, err := s.lockFile(ctx, name)
	if err != nil {
		releaseLocal()
		return nil, err
	}
	return func() {
		_ = f.Close() // releases the lock
		releaseLocal()
	}, nil
}

// lockFile waits for the lock of the processes. The file is not removed afterwards, since
// two processes could then lock different files.
func (s *Store) lockFile(ctx context.Context, name string) (*os.File, error) {
	at := s.file(name) + ".lock"
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return nil, s.storeError(err)
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, s.storeError(err)
	}
	for {
		ok, err := tryLock(f)
		switch {
		case ok:
			return f, nil
		case err != nil:
			_ = f.Close()
			return nil, s.storeError(err)
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		}
	}
}
