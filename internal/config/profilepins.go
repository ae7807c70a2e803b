package config

import (
	"slices"

	"mcpgateway/internal/configfile"
)

// checkProfileHosts demands that a Host names one profile.
func (doc *document) checkProfileHosts(d *decoder) {
	profiles := make(map[string]string) // by host
	for i, at := range d.profiles {
		p := &doc.Profiles[i]
		for j, host := range p.Hosts {
			if first, taken := profiles[host]; taken {
				at.itemErrorf("hosts", j, "%s names the profile %s already; give each profile its own hosts", configfile.Quote(host), first)
				continue
			}
			profiles[host] = p.Name
		}
		for _, l := range []struct {
			key  string
			none bool
		}{{"hosts", len(p.Hosts) == 0}, {"groups", len(p.Groups) == 0}, {"eras", len(p.Eras) == 0}} {
			if at.has(l.key) && l.none {
				at.errorf(l.key, "is empty; name at least one, or remove it")
			}
		}
		if len(p.Groups) > 0 && doc.Auth.Has(AuthNone) {
			at.warnf("groups", "has no effect with auth.mode none: principals have no groups")
		}
	}
}

// checkPins demands that the profiles of principals exist.
func (doc *document) checkPins(d *decoder) {
	names := []string{DefaultProfile}
	for _, p := range doc.Profiles {
		if p.Name != DefaultProfile {
			names = append(names, p.Name)
		}
	}
	check := func(m *mapping, profiles []string) {
		if m.has("profiles") && len(profiles) == 0 {
			m.errorf("profiles", "is empty, so that the principal would get nothing; name a profile, or remove it")
		}
		for i, name := range profiles {
			if !slices.Contains(names, name) {
				m.unknownItem("profiles", i, "profile", name, names)
			}
		}
	}
	for _, k := range doc.Auth.APIKeys {
		check(k.at, k.Profiles)
	}
	for _, c := range doc.Auth.MTLS {
		check(c.at, c.Profiles)
	}
}
