package instance

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// maxPath bounds the path of a socket: macOS and Windows allow 104 and 108 bytes with the end.
	maxPath = 100

	socketSuffix, linkSuffix = ".sock", ".path"
)

// errNoFolder is the error without a folder.
var errNoFolder = errors.New("there is no folder for its socket")

// Listen opens the socket of this gateway in the first state folder in which that is possible; "" is none. Closing the
// listener removes the socket.
func Listen(stateDirs ...string) (net.Listener, error) {
	var errs []error
	for _, dir := range stateDirs {
		if dir == "" {
			continue
		}
		Find(dir) // removes the sockets of killed gateways
		l, err := listen(filepath.Join(dir, "run"))
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
	}
	return nil, cmp.Or(errors.Join(errs...), errNoFolder)
}

func listen(folder string) (net.Listener, error) {
	if err := privateFolder(folder); err != nil {
		return nil, err
	}
	name := strings.ToLower(rand.Text()[:10])
	path := filepath.Join(folder, name+socketSuffix)
	if len(path) <= maxPath {
		l, err := net.Listen("unix", path)
		if err != nil {
			return nil, err
		}
		return l, os.Chmod(path, 0o600)
	}
	short, err := os.MkdirTemp("", "mcpgateway-")
	if err != nil {
		return nil, err
	}
	l := &linked{short: short, link: filepath.Join(folder, name+linkSuffix)}
	if l.Listener, err = net.Listen("unix", filepath.Join(short, "s")); err != nil {
		return nil, errors.Join(err, os.Remove(short))
	}
	if err := os.WriteFile(l.link, []byte(l.Listener.Addr().String()), 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// privateFolder makes a folder that only this user can use.
func privateFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", path)
	case info.Mode().Perm()&0o077 != 0:
		return os.Chmod(path, 0o700) // fails if it belongs to another user
	}
	return nil
}

// linked is a listener on a socket that a file names.
type linked struct {
	net.Listener
	short, link string
}

// Close implements net.Listener.
func (l *linked) Close() error {
	err := l.Listener.Close()
	for _, name := range []string{l.link, l.short} {
		if e := os.Remove(name); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Instance is a running gateway.
type Instance struct{ path string }

// Find returns the gateways that run with a socket in one of the state folders, in no particular order.
func Find(stateDirs ...string) []Instance {
	var all []Instance
	slices.Sort(stateDirs)
	for _, dir := range slices.Compact(stateDirs) {
		if dir != "" {
			all = append(all, find(filepath.Join(dir, "run"))...)
		}
	}
	return all
}

func find(folder string) []Instance {
	files, _ := os.ReadDir(folder) // without the folder no gateway has run
	var all []Instance
	for _, f := range files {
		name := filepath.Join(folder, f.Name())
		path := name
		switch filepath.Ext(name) {
		case socketSuffix:
		case linkSuffix:
			data, err := os.ReadFile(name)
			if err != nil {
				continue
			}
			path = string(data)
		default:
			continue
		}
		c, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			_ = c.Close() // nothing was sent
			all = append(all, Instance{path})
			continue
		}
		if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist) {
			_ = os.Remove(path) // another verb may have removed it
			if name != path {
				_, _ = os.Remove(filepath.Dir(path)), os.Remove(name)
			}
		}
	}
	return all
}

// Transport returns a transport that connects to the gateway, whatever the host of the URL is.
func (i Instance) Transport() *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", i.path)
		},
	}
}
