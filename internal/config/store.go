package config

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"mcpgateway/internal/configfile"
)

// StoreKind is the kind of the store of shared state.
type StoreKind string

// The values of store.kind.
const (
	StoreMemory StoreKind = "memory"
	StoreRedis  StoreKind = "redis"
)

// Store configures the store that several replicas of the gateway share.
type Store struct {
	Kind   StoreKind `yaml:"kind" default:"memory" enum:"memory|redis" doc:"memory keeps everything in this process; redis shares it with all replicas that have the same store and the same keys, and needs bridge.keys"`
	URL    Secret    `yaml:"url" format:"store-url" doc:"servers of kind redis: redis://[user:password@]host[:port][/db], redis+sentinel://host,host/name[/db] or redis+cluster://host,host; rediss for TLS"`
	Prefix string    `yaml:"prefix" default:"mcpgateway" format:"store-prefix" doc:"begins all keys in the store; replicas with another prefix are another deployment"`
	TLS    ClientTLS `yaml:"tls" doc:"TLS toward the store, for URLs that begin with rediss"`
	Keys   []Secret  `yaml:"key" format:"seal-key" single:"true" doc:"keys that seal the values in the store, the first for new values; empty means those of bridge.keys"`
}

// ClientTLS says how the gateway reaches a server over TLS.
type ClientTLS struct {
	CA   string `yaml:"ca" doc:"file with the authorities of the servers' certificates, in PEM; empty means those of the system"`
	Cert string `yaml:"cert" doc:"file with the certificate that the gateway shows, in PEM"`
	Key  string `yaml:"key" doc:"file with its private key, in PEM"`
}

// SealKeys returns the keys of the store as bytes, none if they are those of bridge.keys.
func (s Store) SealKeys() [][]byte { return sealKeys(s.Keys) }

// check refuses keys without a meaning. document.checkStore checks keys that depend on other keys of
// the configuration.
func (s *Store) check(m *mapping) {
	if s.Kind == StoreMemory {
		for _, key := range []string{"url", "prefix", "tls", "key"} {
			if m.has(key) {
				m.warnf(key, "has no effect with kind memory; set kind: redis")
			}
		}
		return
	}
	servers, err := s.Servers()
	if err != nil || s.URL.IsZero() {
		if g := m.given["url"]; g.IsEmpty() {
			m.errorf("url", "kind redis needs url, such as redis://127.0.0.1:6379")
		}
		return // an error about the URL is reported already
	}
	switch {
	case s.TLS != (ClientTLS{}) && !servers.TLS:
		m.errorf("tls", "is for TLS, and url has none; begin it with rediss in place of redis")
	case !servers.TLS && slices.ContainsFunc(servers.Addrs, func(a string) bool { return !isLoopback(a) }):
		m.warnf("url", "the password and the names of keys go over the network unprotected; write rediss if the servers have TLS")
	}
}

// check demands a whole pair, and completes the paths of files.
func (t *ClientTLS) check(m *mapping) {
	switch {
	case t.Cert != "" && t.Key == "":
		m.errorf("cert", "needs key too: set both cert and key, or none of them")
	case t.Cert == "" && t.Key != "":
		m.errorf("key", "needs cert too: set both cert and key, or none of them")
	}
	for _, file := range []*string{&t.CA, &t.Cert, &t.Key} {
		*file = inFolder(m.d.dir, *file)
	}
}

// checkStore demands the keys that replicas share.
func (doc *document) checkStore(m *mapping) {
	if doc.Store.Kind != StoreRedis || len(doc.Bridge.Keys) > 0 {
		return
	}
	if bridge := m.given["bridge"].Value; bridge == nil || configfile.Child(bridge, "keys") == nil { // otherwise its error is reported
		m.errorf("store", "kind redis needs bridge.keys, the same at all replicas: they seal what is in the store and what clients hand back; openssl rand -base64 32 makes one")
	}
}

// Servers say how to reach a store.
type Servers struct {
	Sentinel, Cluster                  bool // neither means a single server
	TLS                                bool
	Addrs                              []string // host:port
	Username, Password                 string
	Master                             string // name of the server at the Sentinels
	SentinelUsername, SentinelPassword string
	DB                                 int
}

// Servers returns what the URL says. The error does not contain it.
func (s Store) Servers() (Servers, error) { return parseStoreURL(s.URL.Reveal()) }

var errStoreURL = errors.New("must be redis://host:port, redis+sentinel://host,host/name or redis+cluster://host,host, or begin with rediss for TLS")

// maxDB is the largest number of a database.
const maxDB = 1 << 16

// parseStoreURL parses the URL of a store. Several hosts are separated by commas, which net/url does
// not know.
func parseStoreURL(text string) (Servers, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	family, kind, _ := strings.Cut(strings.ToLower(scheme), "+")
	s := Servers{TLS: family == "rediss", Sentinel: kind == "sentinel", Cluster: kind == "cluster"}
	if !ok || family != "redis" && family != "rediss" || kind != "" && !s.Sentinel && !s.Cluster || strings.HasSuffix(scheme, "+") {
		return s, errStoreURL
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	user, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, hosts = authority[:i+1], authority[i+1:]
	}
	u, err := url.Parse("redis://" + user + "host" + tail)
	if err != nil {
		return s, errors.New("must be a URL; write characters such as / and @ in a password as %2F and %40")
	}
	s.Username = u.User.Username()
	s.Password, _ = u.User.Password()
	if u.Fragment != "" {
		return s, errStoreURL
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := s.addr(host)
		if err != nil {
			return s, err
		}
		s.Addrs = append(s.Addrs, addr)
	}
	if len(s.Addrs) > 1 && !s.Sentinel && !s.Cluster {
		return s, errors.New("must have one host; with several begin it with redis+sentinel or redis+cluster")
	}
	if err := s.path(u); err != nil {
		return s, err
	}
	return s, s.query(u)
}

// addr returns host:port.
func (s *Servers) addr(host string) (string, error) {
	port := "6379"
	if s.Sentinel {
		port = "26379"
	}
	u, err := url.Parse("redis://" + host)
	if err != nil || u.Hostname() == "" || u.Host != host {
		return "", errors.New("must have hosts in the form host or host:port, separated by commas")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return "", errors.New("must have ports from 1 to 65535")
		}
		port = p
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// path reads the name at the Sentinels and the number of the database.
func (s *Servers) path(u *url.URL) error {
	path := strings.Trim(u.Path, "/")
	if s.Sentinel {
		s.Master, path, _ = strings.Cut(path, "/")
		if s.Master == "" {
			return errors.New("must have the name that the Sentinels know the server by, such as redis+sentinel://host/mymaster")
		}
	}
	if path == "" {
		return nil
	}
	n, err := strconv.Atoi(path)
	switch {
	case s.Cluster:
		return errors.New("must have no path with redis+cluster: a Cluster has one database")
	case err != nil || n < 0 || n > maxDB:
		return errors.New("must end with the number of a database, such as redis://host/0, or without a path")
	}
	s.DB = n
	return nil
}

// query reads the credentials for the Sentinels.
func (s *Servers) query(u *url.URL) error {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errStoreURL
	}
	for name, v := range values {
		switch {
		case s.Sentinel && name == "sentinel_user":
			s.SentinelUsername = v[0]
		case s.Sentinel && name == "sentinel_password":
			s.SentinelPassword = v[0]
		default:
			return errors.New("must have no query, except sentinel_user and sentinel_password with redis+sentinel")
		}
	}
	return nil
}
