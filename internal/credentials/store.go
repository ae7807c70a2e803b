package credentials

import (
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

// Store stores grants and registrations, encrypted, in a folder: one file for each, and a
// key that only the user of the process can read. Several processes may share a folder,
// since each file is replaced as a whole. It is safe for concurrent use.
type Store struct {
	dir string // "": in memory only

	mu     sync.Mutex
	memory map[string][]byte // used without a folder
	locks  map[string]chan struct{}
}

// The files in the folder.
const (
	keyFile   = "grants.key"
	grantsDir = "grants"
	keySize   = 32
	maxStored = 1 << 20
	nameSize  = 16 // bytes of the hash in the name of a file
)

// NewStore returns a store in a folder, the gateway's state folder, which is created when
// something is first stored. "" means in memory.
func NewStore(dir string) *Store {
	return &Store{dir: dir, memory: make(map[string][]byte), locks: make(map[string]chan struct{})}
}

// load reads a stored value, and reports whether there is one.
func (s *Store) load(name string, into any) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		plain, ok := s.memory[name]
		if !ok {
			return false, nil
		}
		return true, s.decode(plain, into)
	}
	v, there, err := s.open(s.file(name), name)
	if err != nil || !there {
		return false, err
	}
	return true, s.decode(v.Value, into)
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
func (s *Store) open(at, name string) (v storedValue, there bool, err error) {
	info, err := os.Stat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return v, false, nil
	}
	if err == nil && info.Size() > maxStored {
		err = errors.New("the file is too large")
	}
	if err != nil {
		return v, false, s.storeError(err)
	}
	sealed, err := os.ReadFile(at)
	if err != nil {
		return v, false, s.storeError(err)
	}
	seal, err := s.sealer()
	if err != nil {
		return v, false, err
	}
	if len(sealed) < seal.NonceSize() {
		return v, false, s.storeError(errors.New("the file is truncated"))
	}
	nonce, text := sealed[:seal.NonceSize()], sealed[seal.NonceSize():]
	if plain, err := seal.Open(nil, nonce, text, []byte(aadFile+filepath.Base(at))); err == nil {
		if err = s.decode(plain, &v); err == nil && name != "" && v.Name != name {
			err = s.storeError(fmt.Errorf("%s is for another name", at))
		}
		return v, err == nil, err
	}
	if name == "" {
		return v, false, nil
	}
	plain, err := seal.Open(nil, nonce, text, []byte(name))
	if err != nil {
		return v, false, s.storeError(fmt.Errorf("%s cannot be opened with the key in %s: it is damaged, or was written with another key", at, keyFile))
	}
	return storedValue{"", plain}, true, nil
}

func (s *Store) decode(plain []byte, into any) error {
	if err := json.Unmarshal(plain, into); err != nil {
		return s.storeError(err)
	}
	return nil
}

// save stores a value.
func (s *Store) save(name string, v any) error {
	plain, err := json.Marshal(v)
	if err != nil {
		return s.storeError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		s.memory[name] = plain
		return nil
	}
	if plain, err = json.Marshal(storedValue{name, plain}); err != nil {
		return s.storeError(err)
	}
	seal, err := s.sealer()
	if err != nil {
		return err
	}
	at := s.file(name)
	nonce := make([]byte, seal.NonceSize(), seal.NonceSize()+len(plain)+seal.Overhead())
	_, _ = rand.Read(nonce) // never fails
	if err := atomicfile.Write(at, seal.Seal(nonce, nonce, plain, []byte(aadFile+filepath.Base(at))), 0o600); err != nil {
		return s.storeError(err)
	}
	return nil
}

// remove removes a stored value.
func (s *Store) remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.memory, name)
	if s.dir == "" {
		return nil
	}
	if err := os.Remove(s.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.storeError(err)
	}
	return nil
}

// file returns the path of a stored value. The hash in it hides the name.
func (s *Store) file(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(s.dir, grantsDir, hex.EncodeToString(sum[:nameSize]))
}

func (s *Store) storeError(err error) *Error {
	return failf("the gateway cannot read or store grants").because(err)
}

// sealer returns the cipher with the key of the folder. Another process may have made a
// new key. The caller holds mu.
func (s *Store) sealer() (cipher.AEAD, error) {
	key, err := s.key()
	if err != nil {
		return nil, s.storeError(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, s.storeError(err)
	}
	return cipher.NewGCM(block)
}

// key reads the key, and makes it if there is none.
func (s *Store) key() ([]byte, error) {
	at := filepath.Join(s.dir, keyFile)
	if err := os.MkdirAll(filepath.Join(s.dir, grantsDir), 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(at)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(at); err != nil {
			return nil, err
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

// makeKey makes a key if there is none. If several processes do so at once, one of them
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
