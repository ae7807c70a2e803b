package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
	"mcpgateway/internal/glob"
	"mcpgateway/internal/plaintext"
)

// Effect is the effect of a rule on an item.
type Effect string

// The effects of policy.default and of rules; only rules confirm.
const (
	Allow   Effect = "allow"
	Deny    Effect = "deny"
	Confirm Effect = "confirm"
)

// Policy configures which items clients may use.
type Policy struct {
	Default Effect   `yaml:"default" enum:"|allow|deny" doc:"effect if no rule decides; empty means allow with auth.mode none, else deny"`
	Rules   []Rule   `yaml:"rules" doc:"rules; deny wins, then confirm, then allow, then the default"`
	Files   []string `yaml:"files" format:"non-empty" doc:"files with more rules, each a list of them or a mapping with rules"`

	// FollowsAuth says that the file leaves Default empty, so that it follows auth.mode.
	FollowsAuth bool `yaml:"-"`
}

// deriveDefault sets an empty Default to the one that auth.mode implies.
func (p *Policy) deriveDefault(a *Auth) {
	p.FollowsAuth = p.FollowsAuth || p.Default == ""
	switch {
	case !p.FollowsAuth:
	case a.Has(AuthNone):
		p.Default = Allow
	default:
		p.Default = Deny
	}
}

// Rule is one rule. Load appends the rules of files to those of the configuration.
type Rule struct {
	Name      string `yaml:"name" format:"rule-name" doc:"name in logs, metrics and explanations; each rule has its own"`
	Effect    Effect `yaml:"effect" enum:"allow|deny|confirm" doc:"effect of the rule; confirm asks the client's user first"`
	Who       Who    `yaml:"who" doc:"principals of the rule: every key must match with one of its values; without it everybody"`
	What      What   `yaml:"what" doc:"items of the rule: kinds are alternatives, upstreams restrict all of them; without it everything"`
	When      string `yaml:"when" doc:"condition in CEL over tool, resource, prompt, args, principal and request"`
	Limit     Limit  `yaml:"limit" doc:"limits of the calls that the rule matches"`
	Challenge bool   `yaml:"challenge" default:"false" doc:"also list the items for principals who lack only a scope; the error of a call names it"`

	File string `yaml:"-"` // that contains the rule
	Pos  Pos    `yaml:"-"`
}

// Who selects principals. A missing list is nil.
type Who struct {
	Subjects []string `yaml:"subjects" format:"claim" doc:"subjects"`
	Groups   []string `yaml:"groups" format:"claim" doc:"groups"`
	Scopes   []string `yaml:"scopes" format:"claim" doc:"scopes"`
	Issuers  []string `yaml:"issuers" format:"claim" doc:"issuers of the credentials of principals"`
	Any      bool     `yaml:"any" default:"false" doc:"everybody"`
}

// What selects items by globs of public names. A missing list is nil.
type What struct {
	Tools     []string `yaml:"tools" format:"glob" doc:"globs of public names of tools"`
	Resources []string `yaml:"resources" format:"glob" doc:"globs of public URIs and templates of resources"`
	Prompts   []string `yaml:"prompts" format:"glob" doc:"globs of public names of prompts"`
	Upstreams []string `yaml:"upstreams" format:"glob" doc:"globs of names of upstreams"`
	Admin     bool     `yaml:"admin" default:"false" doc:"the console at the main address, with admin.ui: public; such a rule is about nothing else"`
}

// LimitPer says by which value a limit counts calls separately.
type LimitPer string

// The values of limit.per.
const (
	PerPrincipal LimitPer = "principal"
	PerRule      LimitPer = "rule"
	PerUpstream  LimitPer = "upstream"
	PerTool      LimitPer = "tool"
)

// Limit limits calls. Zero means no limit.
type Limit struct {
	Rate       Rate     `yaml:"rate" format:"rate" doc:"calls per time, such as 10/s, 100/m, 1000/h"`
	Burst      int      `yaml:"burst" min:"1" max:"1000000" doc:"calls at the same time; without it the number in rate: 2/m allows 2 calls at the same time"`
	Concurrent int      `yaml:"concurrent" min:"1" max:"1000000" doc:"calls that run at the same time"`
	Per        LimitPer `yaml:"per" default:"principal" enum:"principal|rule|upstream|tool" doc:"count separately for each principal, upstream or tool, or for the rule as a whole"`
}

// Rate is a number of calls per time as in the file: 10/s.
type Rate string

// Count is the number of calls in the rate, 0 for none: 10 of 10/s.
func (r Rate) Count() int {
	count, _, _ := strings.Cut(string(r), "/")
	n, _ := strconv.Atoi(count)
	return n
}

// Unit is the time of the rate, 0 for none: a minute for 10/m.
func (r Rate) Unit() time.Duration {
	_, unit, _ := strings.Cut(string(r), "/")
	return rateUnits[unit]
}

// PerSecond is the rate in calls per second, 0 for none.
func (r Rate) PerSecond() float64 {
	if r.Unit() == 0 {
		return 0
	}
	return float64(r.Count()) / r.Unit().Seconds()
}

var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// rate checks a Rate.
func rate(s string) (string, error) {
	count, unit, _ := strings.Cut(s, "/")
	n, err := strconv.Atoi(count)
	if err != nil || !wholeNumber.MatchString(count) || n < 1 || n > 1_000_000 || rateUnits[unit] == 0 {
		return "", errors.New("must be a number of calls per time, such as 10/s, 100/m or 1000/h")
	}
	return s, nil
}

// reservedRules are the names in decisions that no rule makes.
var reservedRules = map[string]bool{"default": true, "upstream.deny": true, "upstream.allow": true, "profile.deny": true, "profile.allow": true, "uri": true, "unknown": true}

func ruleName(s string) (string, error) {
	if reservedRules[s] {
		return "", errors.New("must be another name: this one is reserved for decisions that no rule makes")
	}
	return matching(s, ruleNameForm, "must be at most 64 characters of A-Z a-z 0-9 _ . -")
}

// claimValue checks a value of a principal.
func claimValue(s string) (string, error) {
	if s == "*" {
		return "", errors.New("must be a value of a principal; for everybody, write any: true")
	}
	return matching(s, nonEmpty, "must not be empty or contain control characters")
}

// check checks combinations of keys of a rule.
func (r *Rule) check(m *mapping) {
	r.File, r.Pos = m.d.file, m.pos()
	for _, key := range []string{"name", "effect"} {
		if !m.has(key) && !m.intended[key] {
			m.errorf("", "needs %s", key)
		}
	}
	if strings.HasPrefix(m.path.Pattern, "profiles.") {
		r.checkNarrows(m)
	}
	if r.Effect == Deny && m.has("limit") {
		m.errorf("limit", "has no effect for a rule that denies; remove it")
	}
	if r.Challenge && r.Effect == Deny {
		m.errorf("challenge", "has no effect for a rule that denies; remove it")
	} else if r.Challenge && len(r.Who.Scopes) == 0 {
		m.errorf("challenge", "needs who.scopes, since it tells which scope is missing")
	}
	if r.What.Admin {
		r.checkAdmin(m)
	} else if when, ok := m.given["when"]; ok {
		r.checkCondition(m, when)
	}
	*m.d.rules = append(*m.d.rules, &locatedRule{Rule: r, at: m})
}

// checkAdmin refuses what has no effect in a rule about the console.
func (r *Rule) checkAdmin(m *mapping) {
	if strings.HasPrefix(m.path.Pattern, "profiles.") {
		m.errorf("what", "admin has no effect in a profile; write the rule under policy.rules")
	}
	if r.Effect == Confirm {
		m.errorf("effect", "nobody is asked before a page of the console is shown; with what.admin write allow or deny")
	}
	for _, key := range []string{"when", "limit", "challenge"} {
		if m.has(key) {
			m.errorf(key, "has no effect with what.admin, since the console is no call; remove it, and name the principals under who")
		}
	}
}

// checkNarrows refuses what has no effect in a rule of a profile.
func (r *Rule) checkNarrows(m *mapping) {
	switch {
	case r.Effect == Allow && m.has("effect") && !m.has("limit") && !m.intended["limit"]:
		m.errorf("effect", "allow has no effect in a profile, which allows nothing that policy does not; write a rule that denies or confirms, or give this one a limit")
	case r.Challenge:
		m.errorf("challenge", "has no effect in a profile, which allows nothing; write it in a rule of policy")
	}
}

// check demands that a who in the file names somebody.
func (w *Who) check(m *mapping) {
	lists := []struct {
		key  string
		list []string
	}{{"subjects", w.Subjects}, {"groups", w.Groups}, {"scopes", w.Scopes}, {"issuers", w.Issuers}}
	named := false
	for _, l := range lists {
		switch {
		case !m.has(l.key):
		case len(l.list) == 0:
			m.errorf(l.key, "names nobody; name at least one, or remove it")
			named = true
		case w.Any:
			m.errorf(l.key, "has no effect together with any: true, which is everybody; remove one of them")
		default:
			named = true
		}
	}
	if !named && !w.Any && len(m.intended) == 0 {
		m.errorf("", "names nobody; for everybody write any: true, or remove who")
	}
}

// check demands that a what in the file names something.
func (w *What) check(m *mapping) {
	for key, list := range map[string][]string{"tools": w.Tools, "resources": w.Resources, "prompts": w.Prompts, "upstreams": w.Upstreams} {
		if m.has(key) && len(list) == 0 {
			m.errorf(key, `names nothing; name at least one glob, such as "*", or remove it`)
		}
	}
	switch {
	case len(m.given) == 0 && len(m.intended) == 0:
		m.errorf("", "names nothing; for everything remove what")
	case !m.has("admin"):
	case !w.Admin:
		m.errorf("admin", "has no effect if it is false; remove it")
	case len(m.given) > 1:
		m.errorf("admin", "is about the console alone; write another rule for items")
	}
}

// check demands a limit.
func (l *Limit) check(m *mapping) {
	if !m.has("rate") && !m.has("concurrent") && len(m.intended) == 0 {
		m.errorf("", "limits nothing; it needs rate or concurrent")
	}
	if m.has("burst") && !m.has("rate") {
		m.errorf("burst", "has no effect without rate")
	}
}

// locatedRule is a rule with its position, for the checks that need the whole file.
type locatedRule struct {
	*Rule
	at *mapping
}

// globPlace is the place of a glob in a list of what.
func (r *locatedRule) globPlace(key string, i int) (*yaml.Node, configfile.Path) {
	at, p := r.at.place("what")
	if node := configfile.Child(at, key); node != nil && i < len(node.Content) {
		at = configfile.Resolve(node.Content[i])
	}
	return at, p.Key(key, key).Item(i)
}

// checkRules reads the rule files, and makes the checks that need all rules and upstreams.
func (doc *document) checkRules(d *decoder) {
	for i, file := range doc.Policy.Files {
		if file == "" {
			continue // reported already
		}
		doc.Policy.Files[i] = inFolder(d.dir, file)
		more := d.rulesOf(doc.Policy.Files[i], i)
		doc.Policy.Rules = append(doc.Policy.Rules, more...)
	}
	seen := make(map[string]*locatedRule)
	for _, r := range *d.rules {
		if first := seen[r.Name]; first != nil && r.Name != "" {
			r.at.errorf("name", "is also the name of the rule at %s:%v; give each its own", first.File, first.Pos)
			continue
		}
		seen[r.Name] = r
		doc.checkUpstreamsOf(r)
		doc.checkReachable(r)
	}
}

// checkUsable warns of a policy under which nobody may use anything: its lists are empty, as if the
// upstreams had no tools.
func (doc *document) checkUsable(m *mapping) {
	opens := func(r Rule) bool { return r.Effect != Deny && !r.What.Admin }
	if doc.Policy.Default != Deny || slices.ContainsFunc(doc.Policy.Rules, opens) {
		return
	}
	key, why := "policy", "policy.default is deny"
	if !doc.Auth.Has(AuthNone) && !m.has("policy") {
		key, why = "auth", "with this auth.mode policy.default is deny"
	}
	m.warnf(key, "nobody may use anything: %s, and no rule allows; add one under policy.rules, or policy.default: allow", why)
}

// hasPath reports whether a base URL has a path.
func hasPath(base string) bool {
	_, rest, _ := strings.Cut(base, "://")
	return strings.Contains(strings.TrimSuffix(rest, "/"), "/")
}

// checkConsole demands that principals are known where the console is for some of them.
func (doc *document) checkConsole(m *mapping) {
	allows := func(r Rule) bool { return r.What.Admin && r.Effect == Allow }
	switch public := doc.Admin.UI == UIPublic; {
	case public && doc.Auth.Has(AuthNone):
		m.errorf("admin", "ui: public needs auth.mode, since everybody could open the console of a gateway that does not authenticate clients; set auth.mode, or ui: true for the admin address alone")
	case public && !slices.ContainsFunc(doc.Policy.Rules, allows):
		m.warnf("admin", "ui: public, and no rule allows anybody to open the console at the main address; add one under policy.rules, such as {name: operators, effect: allow, who: {groups: [ops]}, what: {admin: true}}")
	case public && hasPath(doc.PublicURL):
		m.warnf("public_url", "the console at the main address works only without a path in public_url, since its pages are at /ui and /me of the host")
	case !public && slices.ContainsFunc(doc.Policy.Rules, allows):
		m.warnf("policy", "a rule allows the console at the main address, where it is not served; set admin.ui: public")
	}
}

// checkUpstreamsOf demands that the upstreams of a rule exist.
func (doc *document) checkUpstreamsOf(r *locatedRule) {
	var names []string
	for i := range doc.Upstreams {
		names = append(names, doc.Upstreams[i].Name)
	}
	for i, pattern := range r.What.Upstreams {
		if slices.ContainsFunc(names, glob.Compile(pattern).Match) {
			continue
		}
		at, p := r.globPlace("upstreams", i)
		switch near := plaintext.Nearest(pattern, names); {
		case near != "":
			r.at.d.Errorf(at, p, "there is no upstream %s; did you mean %q?", configfile.Quote(pattern), near)
		case len(names) > 0 && len(names) <= maxNamed:
			r.at.d.Errorf(at, p, "there is no upstream %s; there are: %s", configfile.Quote(pattern), strings.Join(names, ", "))
		default:
			r.at.d.Errorf(at, p, "there is no upstream %s", configfile.Quote(pattern))
		}
	}
}

// checkReachable warns of a rule that can never match. If the rule restricts, that is an error, also for
// each single glob: the items that it should restrict would be open. A glob for an upstream that the
// configuration does not have is a warning: it was removed, or other gateways have it and share the rule file.
func (doc *document) checkReachable(r *locatedRule) {
	report := r.at.warnf
	if r.Effect != Allow {
		report = r.at.errorf
	}
	if doc.Auth.Has(AuthNone) {
		for _, l := range []struct {
			key  string
			list []string
		}{{"groups", r.Who.Groups}, {"scopes", r.Who.Scopes}, {"issuers", r.Who.Issuers}} {
			if l.list != nil {
				report("who", "the rule never matches: with auth.mode none nobody has %s", l.key)
				return
			}
		}
		if s := r.Who.Subjects; s != nil && !slices.Contains(s, "anonymous") && !slices.Contains(s, "local") {
			report("who", "the rule never matches: with auth.mode none everybody is anonymous, or local on stdio")
			return
		}
	}
	names, uris, known := doc.prefixes(r.What.Upstreams)
	if !known {
		return
	}
	canBegin, uriCanBegin := glob.Glob.CanBegin, glob.Glob.CanBegin
	if r.Effect != Allow { // a glob that restricts covers every spelling of a URI
		uriCanBegin = glob.Glob.CanBeginFolded
	}
	everyName, everyURI, _ := doc.prefixes(nil)
	globs, reachable := 0, false
	for _, l := range []struct {
		key, separator      string
		globs, begin, every []string // every: of all upstreams, also of those that the rule does not mean
		canBegin            func(g glob.Glob, lead string) bool
	}{
		{"tools", doc.Namespace.Separator, r.What.Tools, names, everyName, canBegin},
		{"prompts", doc.Namespace.Separator, r.What.Prompts, names, everyName, canBegin},
		{"resources", "+", r.What.Resources, uris, everyURI, uriCanBegin},
	} {
		globs += len(l.globs)
		for i, pattern := range l.globs {
			g := glob.Compile(pattern)
			fits := func(lead string) bool { return l.canBegin(g, lead) }
			if slices.ContainsFunc(l.begin, fits) {
				reachable = true
			} else if r.Effect != Allow {
				at, p := r.globPlace(l.key, i)
				why, elsewhere := beginning(pattern, l.separator, l.begin)
				report := r.at.d.Errorf
				if elsewhere && !slices.ContainsFunc(l.every, fits) {
					report = r.at.d.Warnf
				}
				report(at, p, "%s matches no item of an upstream: %s", configfile.Quote(pattern), why)
			}
		}
	}
	if r.Effect == Allow && globs > 0 && !reachable {
		r.at.warnf("what", "the rule never matches: public names here begin with %s", enumerated(append(names, uris...)))
	}
}

// beginning says with what public names begin, or which of these beginnings a glob probably means.
// elsewhere means that the glob may be for an upstream that the configuration does not have.
func beginning(pattern, separator string, begin []string) (why string, elsewhere bool) {
	prefix, _, elsewhere := strings.Cut(pattern, separator)
	if elsewhere {
		if near := plaintext.Nearest(prefix+separator, begin); near != "" {
			return fmt.Sprintf("public names here do not begin like that; did you mean %q?", near), false
		}
	}
	return fmt.Sprintf("public names here begin with %s; correct it, or remove it", enumerated(begin)), elsewhere
}

// enumerated lists the first of some texts.
func enumerated(texts []string) string {
	if len(texts) > maxNamed {
		texts = append(texts[:maxNamed:maxNamed], "…")
	}
	return strings.Join(texts, ", ")
}

// prefixes returns the beginnings of public names and URIs of the upstreams that the globs match; known is
// false if they can begin with anything.
func (doc *document) prefixes(globs []string) (names, uris []string, known bool) {
	for i := range doc.Upstreams {
		u := &doc.Upstreams[i].Upstream
		if globs != nil && !anyCovers(globs, u.Name) {
			continue
		}
		prefix := u.EffectivePrefix()
		if prefix == "" {
			return nil, nil, false
		}
		names = append(names, prefix+doc.Namespace.Separator)
		uris = append(uris, prefix+"+", "ui://"+u.Name)
	}
	return names, append(uris, "http:", "https:"), len(names) > 0
}

// anyCovers reports whether one of the globs matches a name.
func anyCovers(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(g string) bool { return glob.Compile(g).Match(name) })
}
