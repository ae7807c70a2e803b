package endpoint

import (
	"net/url"
	"slices"
	"strings"
)

// The paths of MCP. The path of a profile is Path, a slash and its name.
const (
	Path    = "/mcp"
	PathSSE = "/sse"
	// PathMessages is where clients of HTTP+SSE post their messages.
	PathMessages = PathSSE + "/message"
)

// Default is the name of the default profile, where profiles are named.
const Default = "default"

// NameOf returns the name of a profile: Default for "".
func NameOf(profile string) string {
	if profile == "" {
		return Default
	}
	return profile
}

// IDOf returns the profile with a name: "" for Default.
func IDOf(name string) string {
	if name == Default {
		return ""
	}
	return name
}

// PathOf returns the path of a profile.
func PathOf(profile string) string {
	if profile == "" {
		return Path
	}
	return Path + "/" + profile
}

// Profile is a profile, and who gets it at /mcp.
type Profile struct {
	Name   string   // may be Default
	Hosts  []string // values of Host: a name, or a name with a port
	Groups []string // groups of principals
}

// Endpoint is where a request was sent to.
type Endpoint struct {
	Path string // without the path of messages over HTTP+SSE
	// Profile is the profile that the path or the Host names, "" if neither names one.
	// Access tokens for other profiles are not for this endpoint.
	Profile string

	named bool // the path or the Host names the profile, so that groups choose none
	fixed bool // the path names the profile, so that nobody gets another one
}

// Set is the set of all endpoints. It is immutable.
type Set struct {
	profiles []Profile
	paths    map[string]Endpoint
	hosts    map[string]string // normal form of a Host → name of the profile
}

// New returns the endpoints of /mcp and of profiles. The first profile that has a host or
// a group gets it.
func New(profiles []Profile) *Set {
	s := &Set{profiles: profiles, hosts: make(map[string]string), paths: map[string]Endpoint{
		Path: {Path: Path}, Path + "/" + Default: {Path: Path + "/" + Default},
		PathSSE: {Path: PathSSE}, PathMessages: {Path: PathSSE},
	}}
	for _, p := range profiles {
		if path := PathOf(IDOf(p.Name)); path != Path {
			s.paths[path] = Endpoint{Path: path, Profile: p.Name, named: true, fixed: true}
		}
		for _, h := range p.Hosts {
			if host := normalHost(h); s.hosts[host] == "" {
				s.hosts[host] = p.Name
			}
		}
	}
	return s
}

// Find returns the endpoint of a request. A path with escapes is no endpoint.
func (s *Set) Find(u *url.URL, host string) (Endpoint, bool) {
	e, ok := s.paths[u.Path]
	if !ok || u.RawPath != "" {
		return Endpoint{}, false
	}
	if !e.fixed && len(s.hosts) > 0 {
		name := s.nameOf(host)
		e.Profile, e.named = IDOf(name), name != ""
	}
	return e, true
}

// Has reports whether there is a profile. The default profile always is.
func (s *Set) Has(profile string) bool {
	return profile == "" || slices.ContainsFunc(s.profiles, func(p Profile) bool { return p.Name == profile })
}

// HasHost reports whether a Host names a profile.
func (s *Set) HasHost(host string) bool { return len(s.hosts) > 0 && s.nameOf(host) != "" }

// Names returns the names of all profiles, that of the default profile first.
func (s *Set) Names() []string {
	names := []string{Default}
	for _, p := range s.profiles {
		if p.Name != Default {
			names = append(names, p.Name)
		}
	}
	return names
}

// Choose returns the profile that a principal gets at an endpoint. pinned are the names of
// the only profiles that the principal may use, nil if they may use all. It returns false if the principal may
// not use the endpoint, which then has to look as if it did not exist.
func (s *Set) Choose(e Endpoint, groups, pinned []string) (profile string, ok bool) {
	profile = e.Profile
	if !e.named {
		profile = s.ofGroups(groups)
	}
	switch {
	case pinned == nil || slices.Contains(pinned, NameOf(profile)):
		return profile, true
	case e.fixed:
		return "", false
	}
	for _, name := range pinned {
		if id := IDOf(name); s.Has(id) {
			return id, true
		}
	}
	return "", false
}

// ofGroups returns the first profile that has one of the groups, "" if none has.
func (s *Set) ofGroups(groups []string) string {
	if len(groups) == 0 {
		return ""
	}
	for i := range s.profiles {
		for _, g := range s.profiles[i].Groups {
			if slices.Contains(groups, g) {
				return IDOf(s.profiles[i].Name)
			}
		}
	}
	return ""
}

// nameOf returns the name of the profile that a Host names, "" for none. An entry with the
// port precedes one without.
func (s *Set) nameOf(host string) string {
	host = normalHost(host)
	if name := s.hosts[host]; name != "" {
		return name
	}
	name, _ := splitPort(host)
	return s.hosts[name]
}

// normalHost returns a Host in lower case, and without the final dot of an absolute name.
// It allocates nothing for a Host that has this form.
func normalHost(host string) string {
	host = strings.ToLower(host)
	name, port := splitPort(host)
	if !strings.HasSuffix(name, ".") {
		return host
	}
	return strings.TrimSuffix(name, ".") + port
}

// splitPort splits a Host into its name or address and its port with the colon, "" for
// none.
func splitPort(host string) (name, port string) {
	at := strings.LastIndexByte(host, ':')
	if at < 0 || at < strings.LastIndexByte(host, ']') {
		return host, ""
	}
	return host[:at], host[at:]
}
