package hostconfig

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"

	"mcpgateway/internal/origin"
)

// Conflict is the error if the name of the entry belongs to another server.
type Conflict struct {
	Name  string
	Other string // the command or URL of the other server, "" if it is not known
}

// Error implements error.
func (c *Conflict) Error() string {
	other := "another server"
	if c.Other != "" {
		other = "another server (" + c.Other + ")"
	}
	return fmt.Sprintf("%q is %s there", c.Name, other)
}

// SyntaxError is the error of a file that its host cannot read.
type SyntaxError struct {
	Line, Col int // from 1
	Msg       string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Col, e.Msg)
}

// ErrForm is the error of a file in which an entry cannot be edited without a change of something else.
var ErrForm = errors.New("a form that cannot be edited safely")

// ErrAbsent is the error of [Host.Disconnect] if there is no entry with the name.
var ErrAbsent = errors.New("there is no such server")

// document is a parsed file of a host.
type document interface {
	// servers returns the decoded list of servers, nil if there is none.
	servers() (map[string]any, error)
	// names returns the names of the servers in the order of the file.
	names() []string
	// whole returns the whole decoded file.
	whole() map[string]any
	// add returns the file with an entry that it does not have.
	add(name string, members []member) ([]byte, error)
	// replace returns the file with other members in the place of an entry that it has.
	replace(name string, members []member) ([]byte, error)
	// remove returns the file without an entry that it has. emptyList says that the list goes too if it has nothing else.
	remove(name string, emptyList bool) ([]byte, error)
}

func (h Host) parse(data []byte) (document, error) {
	if h.toml {
		return parseTOML(data, h.Key)
	}
	if bad := h.unreadable(data); bad != nil {
		return nil, bad
	}
	return parseJSON(data, h.Key)
}

// Entry returns the gateway under a name in a file, and whether there is any server of that name. The entry is
// the zero Entry if the server is not a gateway. before is the file before Connect, nil if it is not known.
func (h Host) Entry(data []byte, name string, before []byte) (Entry, bool, error) {
	servers, err := h.servers(data)
	if err != nil {
		return Entry{}, false, err
	}
	value, found := servers[name]
	if e, ok := h.connected(value, name, before); ok {
		return e, found, nil
	}
	return Entry{}, found, nil
}

// Added returns the members of the entry under a name that [Host.Connect] does not write or writes otherwise, sorted.
func (h Host) Added(data []byte, name string) []string {
	servers, _ := h.servers(data) // the caller has read the entry
	value, _ := servers[name].(map[string]any)
	e, _ := entryOf(value)
	written := h.decoded(e)
	var added []string
	for key, v := range value {
		m, isMap := v.(map[string]any)
		if empty := isMap && len(m) == 0; !empty && !reflect.DeepEqual(v, written[key]) {
			added = append(added, key)
		}
	}
	if e.URL == "" && e.Config() == "" {
		added = append(added, "args")
	}
	slices.Sort(added)
	return added
}

// Others returns the names of the servers of a file that are enabled, without the one under a name and without commands
// of a gateway, sorted.
func (h Host) Others(data []byte, name string) []string {
	servers, _ := h.servers(data) // a file with errors has been reported before
	var others []string
	for other, value := range servers {
		m, _ := value.(map[string]any)
		e, is := entryOf(value)
		if ours := is && e.URL == ""; !ours && other != name && m["disabled"] != true && m["enabled"] != false {
			others = append(others, other)
		}
	}
	slices.Sort(others)
	return others
}

// Gateways returns the names of the servers of a file that are commands of a gateway, or URLs of one as isGateway reports,
// sorted.
func (h Host) Gateways(data []byte, isGateway func(url string) bool) []string {
	servers, _ := h.servers(data) // a file with errors has been reported before
	var names []string
	for name, value := range servers {
		if e, is := entryOf(value); is && (e.URL == "" || isGateway(e.URL)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// servers returns the decoded list of servers of a file, nil if there is none.
func (h Host) servers(data []byte) (map[string]any, error) {
	d, err := h.parse(data)
	if err != nil {
		return nil, err
	}
	return d.servers()
}

// connected reads an entry that [Host.Connect] can have written. A command is recognized by its words. Any server may
// have a URL, so one counts if it is that of a gateway on this machine, if the entry has nothing that Connect does not
// write, or if the file before Connect had no entry of this name. An entry with a URL elsewhere and with headers, in a file
// whose past is unknown, may be somebody's other server.
func (h Host) connected(value any, name string, before []byte) (Entry, bool) {
	e, ok := entryOf(value)
	if !ok || e.URL == "" {
		return e, ok
	}
	if len(before) > 0 {
		if servers, err := h.servers(before); err == nil && servers[name] == nil {
			return e, true
		}
	}
	u, err := url.Parse(e.URL)
	if err != nil {
		return e, false
	}
	loopback := origin.IsLoopback(u.Hostname())
	isMCP, alone := mcpPath.MatchString(u.Path), reflect.DeepEqual(value, h.decoded(e))
	return e, loopback && (isMCP || alone) || isMCP && alone
}

// mcpPath matches the paths of MCP, that of a profile too; a proxy may have put something before it.
var mcpPath = regexp.MustCompile(`/mcp(?:/[^/]+)?/?$`)

// Connect returns a file of the host with the entry added under a name. A file without content is valid. If the
// entry is there already, Connect returns data. The error is a *[Conflict] if the name belongs to another server.
func (h Host) Connect(data []byte, name string, e Entry) ([]byte, error) {
	if e.URL != "" && h.url == "" {
		return nil, fmt.Errorf("the file of %s takes only commands, and no URL: leave out --http", h.Title)
	}
	d, err := h.parse(data)
	if err != nil {
		return nil, err
	}
	servers, err := d.servers()
	if err != nil {
		return nil, err
	}
	if old, found := servers[name]; found {
		have, ok := entryOf(old)
		switch {
		case !ok:
			return nil, &Conflict{Name: name, Other: describe(old)}
		case !have.equal(e):
			return nil, &Conflict{Name: name, Other: have.String()}
		}
		return data, nil
	}
	after, err := d.add(name, h.members(e))
	if err != nil {
		return nil, err
	}
	return after, h.verify(d, after, name, h.decoded(e))
}

// Replace returns a file of the host with another entry in the place of one that [Host.Connect] has added under a name. Members
// that Connect does not write are lost, see [Host.Added].
func (h Host) Replace(data []byte, name string, e Entry) ([]byte, error) {
	d, err := h.parse(data)
	if err != nil {
		return nil, err
	}
	after, err := d.replace(name, h.members(e))
	if err != nil {
		return nil, err
	}
	return after, h.verify(d, after, name, h.decoded(e))
}

// Disconnect returns a file of the host without the entry that [Host.Connect] has added under a name, however it was
// extended since. The error is ErrAbsent if there is no entry, and a *[Conflict] if the name belongs to another
// server.
//
// before is the file before Connect, nil if it is not known. If only Connect has changed the file since, the
// result is before. A list of servers that before does not have goes with its last entry.
func (h Host) Disconnect(data []byte, name string, before []byte) ([]byte, error) {
	d, err := h.parse(data)
	if err != nil {
		return nil, err
	}
	servers, err := d.servers()
	if err != nil {
		return nil, err
	}
	old, found := servers[name]
	if !found {
		return nil, ErrAbsent
	}
	if _, ok := h.connected(old, name, before); !ok {
		return nil, &Conflict{Name: name, Other: describe(old)}
	}
	if before != nil {
		if all := h.added(d, name, before); h.isBuilt(data, before, all) {
			return h.build(before, slices.DeleteFunc(all, func(a added) bool { return a.name == name }))
		}
	}
	return h.remove(d, name, before)
}

// Without returns a file without the entries that [Host.Connect] has added, and without the one under a name; "" is none.
// It returns data if there are none. before is as in [Host.Disconnect]; if it is empty, a server with a URL may be another one,
// and stays unless Connect alone has written the file.
func (h Host) Without(data []byte, name string, before []byte) ([]byte, error) {
	d, err := h.parse(data)
	if err != nil {
		return nil, err
	}
	if _, err := d.servers(); err != nil {
		return nil, err
	}
	all := h.added(d, name, before)
	if len(all) > 0 && h.isBuilt(data, before, all) {
		return before, nil
	}
	for _, a := range all {
		if a.URL != "" && a.name != name && len(before) == 0 {
			continue
		}
		if d, err = h.parse(data); err != nil {
			return nil, err
		}
		if data, err = h.remove(d, a.name, before); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// added is an entry that [Host.Connect] has added.
type added struct {
	name string
	Entry
	isOld bool // the file before has an entry of this name
}

// added returns the entries that Connect can have added to a file since before, in the order of the file. Commands of a gateway
// count even if before has them, and so does the entry under a name.
func (h Host) added(d document, name string, before []byte) (all []added) {
	servers, _ := d.servers() // the caller has read them
	old, _ := h.servers(before)
	for _, other := range d.names() {
		e, ok := h.connected(servers[other], other, before)
		if isOld := old[other] != nil; ok && (!isOld || e.URL == "" || other == name) {
			all = append(all, added{other, e, isOld})
		}
	}
	return all
}

// isBuilt reports whether a file is before with entries that Connect has added, and nothing else has changed.
func (h Host) isBuilt(data, before []byte, all []added) bool {
	if slices.ContainsFunc(all, func(a added) bool { return a.isOld }) {
		return false
	}
	built, err := h.build(before, all)
	return err == nil && string(built) == string(data)
}

// build adds entries to a file.
func (h Host) build(data []byte, all []added) (_ []byte, err error) {
	for _, a := range all {
		if data, err = h.Connect(data, a.name, a.Entry); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// remove removes an entry from a file. before is as in [Host.Disconnect].
func (h Host) remove(d document, name string, before []byte) ([]byte, error) {
	after, err := d.remove(name, before != nil && h.hasNoList(before))
	if err != nil {
		return nil, err
	}
	return after, h.verify(d, after, name, nil)
}

// hasNoList reports whether a file has no list of servers.
func (h Host) hasNoList(data []byte) bool {
	servers, err := h.servers(data)
	return err == nil && servers == nil
}

// Snippet is a file of the host that has nothing but the entry.
func (h Host) Snippet(name string, e Entry) ([]byte, error) { return h.Connect(nil, name, e) }

// verify reports an error unless the servers of after are those of before with the entry under name replaced by
// entry, or removed if entry is nil, and everything else is as before.
func (h Host) verify(before document, after []byte, name string, entry map[string]any) error {
	d, err := h.parse(after)
	if err == nil {
		want := before.whole()
		if want = cloned(want); want[h.Key] == nil {
			want[h.Key] = map[string]any{}
		}
		servers := cloned(want[h.Key].(map[string]any))
		want[h.Key] = servers
		delete(servers, name)
		if entry != nil {
			servers[name] = entry
		}
		got := d.whole()
		if len(servers) == 0 && got[h.Key] == nil { // in TOML the last table takes the list with it
			delete(want, h.Key)
		}
		if reflect.DeepEqual(got, want) {
			return nil
		}
	}
	return fmt.Errorf("%s has %w", h.Key, ErrForm)
}

func cloned(m map[string]any) map[string]any {
	out := make(map[string]any, len(m)+1)
	for k, v := range m {
		out[k] = v
	}
	return out
}

// describe names a server for people: its command, or its URL without what may be secret in it.
func describe(value any) string {
	m, _ := value.(map[string]any)
	for _, key := range urlKeys {
		if u, ok := m[key].(string); ok {
			return plainURL(u)
		}
	}
	command, _ := m["command"].(string)
	return command
}
