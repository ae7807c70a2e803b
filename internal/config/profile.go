package config

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
	"mcpgateway/internal/plaintext"
)

// DefaultProfile is the name of the profile that is served at /mcp.
const DefaultProfile = "default"

// Profile is a named view of the upstreams' items, with its own endpoint.
type Profile struct {
	Name string `yaml:"-"` // unique; matches [a-z][a-z0-9-]{0,31}
	Pos  Pos    `yaml:"-"` // of the name

	Upstreams []string     `yaml:"upstreams" doc:"upstreams of the profile, by name; without it all"`
	Tags      []string     `yaml:"tags" format:"tag" doc:"tags of the profile: an item needs one of them, itself or by its upstream"`
	Tools     PublicFilter `yaml:"tools" doc:"tools of the profile"`
	Resources PublicFilter `yaml:"resources" doc:"resources of the profile"`
	Prompts   PublicFilter `yaml:"prompts" doc:"prompts of the profile"`

	Annotations Annotations   `yaml:"annotations,omitempty" doc:"hints that tools of the profile have; a missing hint has the default of the specification"`
	Policy      ProfilePolicy `yaml:"policy" doc:"rules of the profile; they restrict what policy allows, and never allow more"`

	Names        ProfileNames `yaml:"names" default:"prefixed" enum:"prefixed|short" doc:"names of tools and prompts: with the prefix of their upstream, or short, without the prefix if the names do not clash"`
	Trim         Trim         `yaml:"trim" doc:"parts of definitions that lists leave out; arguments and results are checked against the whole definition"`
	Instructions *string      `yaml:"instructions" doc:"instructions in the place of the merged ones of the upstreams; empty means none"`

	Hosts  []string `yaml:"hosts" format:"host" doc:"values of Host that get the profile at /mcp; they are accepted like those of allowed_hosts"`
	Groups []string `yaml:"groups" format:"claim" doc:"groups whose principals get the profile at /mcp, unless the Host names one; the first profile with a group counts"`
	Eras   []Era    `yaml:"eras" enum:"legacy|modern" single:"true" doc:"eras of clients that are served; without it both"`

	Catalog CatalogMode `yaml:"catalog" default:"list" enum:"list|search" doc:"list shows clients all tools; search shows them search_tools, describe_tools and call_tool, by which they find and call all others"`
	Pinned  []string    `yaml:"pinned" format:"glob" doc:"with catalog: search, globs of the public names of tools that are listed all the same"`
	Split   bool        `yaml:"split" default:"false" doc:"with catalog: search, whether call_read_tool, call_write_tool and call_destructive_tool take the place of call_tool, by the annotations of the tools that they call"`

	MaxResult         Size              `yaml:"max_result" default:"0" min:"0" max:"1GiB" doc:"how long the texts in a result of a tool may be; of a longer one clients get the beginning, an outline and a link by which they read on; 0 means no limit"`
	StructuredContent StructuredContent `yaml:"structured_content" default:"whole" enum:"whole|cut" doc:"with max_result, whether structuredContent stays whole for a tool that shows clients an outputSchema, or is cut too; clients that validate refuse a result that lacks it"`
	Images            Images            `yaml:"images" doc:"images in results of tools"`

	Scripts   bool     `yaml:"scripts" default:"false" doc:"whether run_script runs scripts of models that call tools"`
	ToolsFrom []string `yaml:"tools_from" doc:"Starlark files, each of which defines a tool that calls others"`
	// ToolFiles are the files of ToolsFrom.
	ToolFiles []ToolFile `yaml:"-"`
}

// ToolFile is a file that defines a tool.
type ToolFile struct{ File, Source string }

// maxToolFiles bounds the number of files in tools_from.
const maxToolFiles = 100

// ProfilePolicy restricts what the policy of all profiles allows.
type ProfilePolicy struct {
	Rules []Rule `yaml:"rules" like:"policy.rules" doc:"rules that deny, confirm or limit, by ordinary public names; the strictest of these and the rules of policy decides"`
}

// CatalogMode says how a profile shows its tools.
type CatalogMode string

// The modes of a catalog.
const (
	CatalogList   CatalogMode = "list"
	CatalogSearch CatalogMode = "search"
)

// ProfileNames is the form of the names of tools and prompts in a profile.
type ProfileNames string

// The values of profiles.*.names.
const (
	NamesPrefixed ProfileNames = "prefixed"
	NamesShort    ProfileNames = "short"
)

// PublicFilter selects items by globs of ordinary public names, or public URIs. An item is selected if
// Allow matches and Deny does not; an empty Allow selects nothing.
type PublicFilter struct {
	Allow []string `yaml:"allow" default:"*" format:"glob" listed:"true" doc:"globs of public names or URIs to select; a plain list in place of the mapping is the same as allow"`
	Deny  []string `yaml:"deny" format:"glob" doc:"globs of public names or URIs to leave out; takes precedence over allow"`
}

// check checks the name and combinations of keys of a profile.
func (p *Profile) check(m *mapping) {
	p.Name, p.Pos = m.key, m.pos()
	switch {
	case p.Name == "mcp":
		m.errorf("", "must be another name: /mcp/mcp would be taken for a mistake; the profile at /mcp is named %s", DefaultProfile)
	case !namePattern.MatchString(p.Name):
		m.errorf("", "the name of a profile must begin with a lower-case letter and have at most %d of a-z 0-9 -, since it is part of a URL", MaxName)
	}
	for _, l := range []struct {
		key  string
		list []string
	}{{"upstreams", p.Upstreams}, {"tags", p.Tags}} {
		if m.has(l.key) && len(l.list) == 0 {
			m.errorf(l.key, "selects nothing; name at least one, or remove it to select all")
		}
	}
	if p.Catalog == CatalogList {
		for _, key := range []string{"pinned", "split"} {
			if m.has(key) {
				m.errorf(key, "needs catalog: search: with catalog: list all tools are listed")
			}
		}
	}
	p.checkResults(m)
	p.readTools(m)
	m.d.profiles = append(m.d.profiles, m)
}

// readTools reads the files of tools_from.
func (p *Profile) readTools(m *mapping) {
	for i, file := range p.ToolsFrom {
		switch {
		case file == "":
			m.itemErrorf("tools_from", i, "must be the name of a file")
			continue
		case i >= maxToolFiles:
			m.itemErrorf("tools_from", i, "there are more than %d files", maxToolFiles)
			return
		}
		file = inFolder(m.d.dir, file)
		p.ToolsFrom[i] = file
		data, err := m.d.read(file)
		if err != nil {
			m.itemErrorf("tools_from", i, "%s", unreadable(file, err))
			continue
		}
		p.ToolFiles = append(p.ToolFiles, ToolFile{file, string(data)})
	}
}

// checkProfiles makes the checks of profiles that need the whole file.
func (doc *document) checkProfiles(d *decoder) {
	doc.checkProfileHosts(d)
	doc.checkPins(d)
	for i, at := range d.profiles {
		doc.checkProfileUpstreams(&doc.Profiles[i], at)
		doc.checkProfileTags(&doc.Profiles[i], at)
		doc.checkResultPrefix(&doc.Profiles[i], at)
	}
}

// checkProfileUpstreams demands that the upstreams of a profile exist. A name as it is written in
// the file stands for the name that it leads to.
func (doc *document) checkProfileUpstreams(p *Profile, m *mapping) {
	var names []string
	byKey := make(map[string]string)
	for i := range doc.Upstreams {
		names = append(names, doc.Upstreams[i].Name)
		byKey[doc.Upstreams[i].Key] = doc.Upstreams[i].Name
	}
	for i, name := range p.Upstreams {
		switch {
		case slices.Contains(names, name):
		case byKey[name] != "":
			p.Upstreams[i] = byKey[name]
		default:
			m.unknownItem("upstreams", i, "upstream", name, names)
		}
		if slices.Contains(p.Upstreams[:i], p.Upstreams[i]) {
			m.itemErrorf("upstreams", i, "is listed twice; list each once")
		}
	}
}

// checkProfileTags demands that something has the tags of a profile.
func (doc *document) checkProfileTags(p *Profile, m *mapping) {
	var tags []string
	for i := range doc.Upstreams {
		u := &doc.Upstreams[i]
		tags = append(tags, u.Tags...)
		for _, o := range append(u.Tools.Override[:len(u.Tools.Override):len(u.Tools.Override)], u.Prompts.Override...) {
			tags = append(tags, o.Tags...)
		}
	}
	slices.Sort(tags)
	tags = slices.DeleteFunc(slices.Compact(tags), func(tag string) bool { return tag == "" }) // reported already
	for i, tag := range p.Tags {
		if tag != "" && !slices.Contains(tags, tag) {
			m.unknownItem("tags", i, "upstream or item with the tag", tag, tags)
		}
	}
}

// unknownItem reports an element of a list that is none of the known ones.
func (m *mapping) unknownItem(key string, i int, what, name string, known []string) {
	switch near := plaintext.Nearest(name, known); {
	case near != "":
		m.itemErrorf(key, i, "there is no %s %s; did you mean %q?", what, configfile.Quote(name), near)
	case len(known) > 0 && len(known) <= maxNamed:
		m.itemErrorf(key, i, "there is no %s %s; there are: %s", what, configfile.Quote(name), strings.Join(known, ", "))
	default:
		m.itemErrorf(key, i, "there is no %s %s", what, configfile.Quote(name))
	}
}

// itemErrorf reports an error at an element of a list.
func (m *mapping) itemErrorf(key string, i int, format string, args ...any) {
	at, p := m.place(key)
	if at.Kind == yaml.SequenceNode && i < len(at.Content) {
		at = configfile.Resolve(at.Content[i])
	}
	m.d.Errorf(at, p.Item(i), format, args...)
}
