package config

import (
	"crypto/sha256"
	"reflect"

	"mcpgateway/internal/configfile"
)

// ChangedKeys returns the keys whose values differ in two configurations, such as "policy.rules", in the
// order of the schema. A list has one key. Upstreams are left out.
func (c *Config) ChangedKeys(before *Config) []string {
	return changedKeys(reflect.ValueOf(c).Elem(), reflect.ValueOf(before).Elem(), "")
}

func changedKeys(now, was reflect.Value, parent string) (keys []string) {
	for _, f := range shapeOf(now.Type()).fields {
		key := configfile.Join(parent, f.name)
		a, b := now.FieldByIndex(f.index), was.FieldByIndex(f.index)
		switch {
		case f.isStruct():
			keys = append(keys, changedKeys(a, b, key)...)
		case digestOf(a) != digestOf(b):
			keys = append(keys, key)
		}
	}
	return keys
}

// RuleChanges are the names of rules that differ in two configurations, in their order.
type RuleChanges struct{ Added, Removed, Changed []string }

// ChangedRules compares the rules of policy, its files and profiles. A rule that was moved to another
// profile has changed; one that was moved to another file has not.
func (c *Config) ChangedRules(before *Config) (changes RuleChanges) {
	names, now := c.ruleVersions()
	namesBefore, was := before.ruleVersions()
	for _, name := range names {
		if version, found := was[name]; !found {
			changes.Added = append(changes.Added, name)
		} else if version != now[name] {
			changes.Changed = append(changes.Changed, name)
		}
	}
	for _, name := range namesBefore {
		if _, found := now[name]; !found {
			changes.Removed = append(changes.Removed, name)
		}
	}
	return changes
}

// ruleVersion is equal for two rules with the same keys in the same profile, "" for none.
type ruleVersion struct {
	profile string
	digest  [sha256.Size]byte
}

func (c *Config) ruleVersions() (names []string, versions map[string]ruleVersion) {
	versions = make(map[string]ruleVersion)
	add := func(profile string, rules []Rule) {
		for _, r := range rules {
			names = append(names, r.Name)
			versions[r.Name] = ruleVersion{profile, digestOf(reflect.ValueOf(r))}
		}
	}
	add("", c.Policy.Rules)
	for _, p := range c.Profiles {
		add(p.Name, p.Policy.Rules)
	}
	return names, versions
}
