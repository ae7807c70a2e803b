package credentials

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"mcpgateway/internal/atomicfile"
)

// folder keeps values in files, one for each, which it encrypts with a key that only the user of the
// process can read. Several processes may share a folder, since each file is replaced as a whole.
type folder struct {
	dir string
	mu  sync.Mutex
}

// The files in the folder.
const (
	keyFile   = "grants.key"
	grantsDir = "grants"
	keySize   = 32
	maxStored = 1 << 20
	nameSize  = 16 // bytes of the hash in the name of a file
)

// load implements values.
func (s *folder) load(_ context.Context, name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, there, err := s.open(s.file(name), name)
	if err != nil || !there {
		return nil, err
	}
	return v.Value, nil
}

// storedValue is the content of a file.
type storedValue struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// aadFile precedes the name of a file in the data that is authenticated with its content.
// Files without it are of a version before this one, and do not contain their names.
const aadFile = "file\x00"

// open reads a file, and reports whether it is there. name may be "" if it is not known;
// then a file that does not contain its name is not there. The caller holds mu.
func (s *folder) open(at, name string) (v storedValue, there bool, err error) {
	info, err := os.Stat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return v, false, nil
	}
	if err == nil && info.Size() > maxStored {
		err = errors.New("the file is too large")
	}
	if err != nil {
		return v, false, storeError(err)
	}
	sealed, err := os.ReadFile(at)
	if err != nil {
		return v, false, storeError(err)
	}
	seal, err := s.sealer()
	if err != nil {
		return v, false, err
	}
	if len(sealed) < seal.NonceSize() {
		return v, false, storeError(errors.New("the file is truncated"))
	}
	nonce, text := sealed[:seal.NonceSize()], sealed[seal.NonceSize():]
	if plain, err := seal.Open(nil, nonce, text, []byte(aadFile+filepath.Base(at))); err == nil {
		if err = decode(plain, &v); err == nil && name != "" && v.Name != name {
			err = storeError(fmt.Errorf("%s is for another name", at))
		}
		return v, err == nil, err
	}
	if name == "" {
		return v, false, nil
	}
	plain, err := seal.Open(nil, nonce, text, []byte(name))
	if err != nil {
		return v, false, storeError(fmt.Errorf("%s cannot be opened with the key in %s: it is damaged, or was written with another key", at, keyFile))
	}
	return storedValue{"", plain}, true, nil
}

// save implements values.
func (s *folder) save(_ context.Context, name string, value []byte) error {
	plain, err := json.Marshal(storedValue{name, value})
	if err != nil {
		return storeError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seal, err := s.sealer()
	if err != nil {
		return err
	}
	at := s.file(name)
	nonce := make([]byte, seal.NonceSize(), seal.NonceSize()+len(plain)+seal.Overhead())
	_, _ = rand.Read(nonce) // never fails
	if err := atomicfile.Write(at, seal.Seal(nonce, nonce, plain, []byte(aadFile+filepath.Base(at))), 0o600); err != nil {
		return storeError(err)
	}
	return nil
}

// takes returns an error if the folder takes no files.
func (s *folder) takes() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.sealer(); err != nil {
		return err
	}
	tmp, err := atomicfile.Temp(filepath.Join(s.dir, grantsDir, "probe"), nil, 0o600)
	if err != nil {
		return storeError(unwritable(err))
	}
	_ = os.Remove(tmp)
	return nil
}

// unwritable says what to do about a folder that takes no files.
func unwritable(err error) error {
	return fmt.Errorf("%w; set state_dir to a folder that this user can write", err)
}

// replace implements values.
func (s *folder) replace(ctx context.Context, name string, old, value []byte) error {
	now, err := s.load(ctx, name)
	if err != nil || !bytes.Equal(now, old) {
		return err
	}
	return s.save(ctx, name, value)
}

// remove implements values.
func (s *folder) remove(_ context.Context, name string, _ []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Remove(s.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storeError(err)
	}
	return nil
}

// names implements values. It returns the names that files contain.
func (s *folder) names(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	dir := filepath.Join(s.dir, grantsDir)
	files, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, storeError(err)
	}
	for _, f := range files {
		if len(f.Name()) != 2*nameSize {
			continue // a lock, or a file that is being written
		}
		if _, err := hex.DecodeString(f.Name()); err != nil {
			continue
		}
		v, ok, err := s.open(filepath.Join(dir, f.Name()), "")
		if err != nil {
			return nil, err
		}
		if ok && v.Name != "" {
			names = append(names, v.Name)
		}
	}
	return names, nil
}

// file returns the path of a stored value. The hash in it hides the name.
func (s *folder) file(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(s.dir, grantsDir, hex.EncodeToString(sum[:nameSize]))
}

// sealer returns the cipher with the key of the folder. Another process may have made a
// new key. The caller holds mu.
func (s *folder) sealer() (cipher.AEAD, error) {
	key, err := s.key()
	if err != nil {
		return nil, storeError(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, storeError(err)
	}
	return cipher.NewGCM(block)
}

// key reads the key, and makes it if there is none.
func (s *folder) key() ([]byte, error) {
	at := filepath.Join(s.dir, keyFile)
	if err := os.MkdirAll(filepath.Join(s.dir, grantsDir), 0o700); err != nil {
		return nil, unwritable(err)
	}
	info, err := os.Stat(at)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(at); err != nil {
			return nil, unwritable(err)
		}
		info, err = os.Stat(at)
	}
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("other users can read %s, the key that encrypts grants: run chmod 600 on it; if they may have read it, remove it and the folder %s, and log in again", at, grantsDir)
	}
	key, err := os.ReadFile(at)
	if err == nil && len(key) != keySize {
		err = fmt.Errorf("%s is not a key of %d bytes: remove it and the folder %s, and log in again", at, keySize, grantsDir)
	}
	return key, err
}

// makeKey makes a key if there is none. If several processes do so at the same time, one of them
// succeeds.
func makeKey(at string) error {
	key := make([]byte, keySize)
	_, _ = rand.Read(key)
	tmp, err := atomicfile.Temp(at, key, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	if err := os.Link(tmp, at); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// lock implements values. The lock is also that of other processes, unless the folder takes no lock file:
// then a grant is renewed nevertheless, and kept in memory.
func (s *folder) lock(ctx context.Context, name string) (func(bool), error) {
	at := s.file(name)
	err := os.MkdirAll(filepath.Dir(at), 0o700)
	if err == nil {
		var unlock func()
		if unlock, err = atomicfile.Lock(ctx, at); err == nil {
			return func(bool) { unlock() }, nil
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return func(bool) {}, nil
}
