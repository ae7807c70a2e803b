package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
	"mcpgateway/internal/console"
	"mcpgateway/internal/hostconfig"
	"mcpgateway/internal/hostimport"
	"mcpgateway/internal/ruleset"
)

// edited is a gateway.yaml while a verb edits it, with its env_file. Other commands wait with their edits of both until close
// is called.
type edited struct {
	*configfile.Edit
	name    string
	file    *hostconfig.File
	before  *config.Config // nil if the file has errors, such as no upstreams
	errs    config.Errors  // the errors of the file
	section string         // the key of the upstreams in the file
	env     *hostconfig.File
	values  string   // the new content of env
	text    string   // of the file, without an entry that is replaced
	isNew   bool     // whether this command has made the file
	reads   []string // the files that the configuration refers to, such as those with rules
	others  []string // files that may refer to the variables of env, too; read by isLeftOver
	unlock  []func()
}

// defaultEnvFile is the env_file of a configuration that has none, beside it.
const defaultEnvFile = "gateway.env"

// configPath returns the file that run would use, "" if there is none.
func (o *runOptions) configPath() string {
	if o.file != "" {
		return o.file
	}
	for _, file := range defaultFiles() {
		if _, err := os.Lstat(file); err == nil {
			return file
		}
	}
	return ""
}

// lock waits until no other command of this user edits a file, and returns the function that lets others edit it.
func lock(ctx context.Context, name string) (unlock func(), err error) {
	folder := config.Default(lookupEnv).StateDir // of the user: a configuration may have none yet, or change it
	if folder != "" {
		folder = filepath.Join(folder, "locks")
	}
	return hostconfig.Lock(ctx, folder, name)
}

// edit opens the file that run would use. The caller closes it.
func (o *runOptions) edit(ctx context.Context) (*edited, error) {
	name := o.configPath()
	if name == "" {
		return nil, o.noFileError("there is no gateway.yaml here; make one with gateway init, or name one with -c")
	}
	e := &edited{name: name, section: "upstreams"}
	if err := e.open(ctx); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// close lets others edit the files. Calls after the first do nothing.
func (e *edited) close() {
	for _, unlock := range e.unlock {
		unlock()
	}
}

// read locks and reads a file.
func (e *edited) read(ctx context.Context, name string) (*hostconfig.File, error) {
	unlock, err := lock(ctx, name)
	if err != nil {
		return nil, err
	}
	e.unlock = append(e.unlock, unlock)
	f, err := hostconfig.Read(name)
	if err != nil {
		return nil, configfile.Unreadable(name, err)
	}
	return f, nil
}

// open locks and reads the files.
func (e *edited) open(ctx context.Context) error {
	file, err := e.read(ctx, e.name)
	if err == nil && !file.Exists {
		err = configfile.Unreadable(e.name, fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	edit, bad := configfile.NewEdit(e.name, file.Data)
	if bad != nil {
		return config.Errors{bad}
	}
	e.Edit, e.file = edit, file
	for _, key := range []string{"mcpServers", "servers"} {
		if configfile.Child(edit.Root(), key) != nil {
			e.section = key
		}
	}
	note := config.WithFiles(func(_ string, data []byte) { e.reads = append(e.reads, string(data)) })
	var wrong error // save reports it
	e.before, wrong = config.Parse(e.name, file.Data, lookupEnv, ruleset.CheckConditions(), note)
	if wrong == nil {
		wrong = e.before.CheckLoops()
	}
	errors.As(wrong, &e.errs)
	at := filepath.Join(filepath.Dir(e.name), defaultEnvFile)
	if e.before != nil && e.before.EnvFile != "" {
		at = e.before.EnvFile
	}
	if e.env, err = e.read(ctx, at); err != nil {
		return err
	}
	e.values, e.text = string(e.env.Data), string(file.Data)
	return nil
}

var inputRef = regexp.MustCompile(`\$\{input:([^}]*)\}`)

// uses reports whether a text refers to a variable.
func uses(text, variable string) bool {
	if regexp.MustCompile(`\$\{(env:)?` + regexp.QuoteMeta(variable) + `(:-|\})`).MatchString(text) {
		return true
	}
	inputs := inputRef.FindAllStringSubmatch(text, -1)
	return slices.ContainsFunc(inputs, func(m []string) bool { return config.InputVariable(m[1]) == variable })
}

// sets reports whether a file of variables has a variable.
func sets(values, variable string) bool { return setting(variable).MatchString(values) }

// setting matches the beginning of a line of a file of variables that sets a variable.
func setting(variable string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*(export )?` + regexp.QuoteMeta(variable) + `[ \t]*=`)
}

// taken reports whether a variable must not get a new value. The environment takes precedence over the env_file. A value
// that is left over may be replaced, but it is not taken for one that the user is to set. A line that is there already stays as it is,
// also if another configuration refers to its variable.
func (e *edited) taken(variable string, moved bool, line string) bool {
	return isSet(variable) || uses(e.text, variable) || sets(e.values, variable) && !(moved && (e.hasLine(variable, line) || e.isLeftOver(variable)))
}

// isSet reports whether the environment has a variable.
func isSet(variable string) bool {
	_, set := lookupEnv(variable)
	return set
}

// addValues adds the values of variables to the env_file. The configuration gets the key env_file if it has none and a
// variable is there or remains to be set.
func (e *edited) addValues(variables []hostimport.Variable, lines string) error {
	if !slices.ContainsFunc(variables, func(v hostimport.Variable) bool { return v.Moved || !isSet(v.Name) }) {
		return nil
	}
	for _, v := range variables {
		if v.Moved {
			e.values = written(v.Name).ReplaceAllString(e.values, "") // what is left over
		}
	}
	if e.values == "" {
		e.values = "# Variables for " + filepath.Base(e.name) + ", which names this file as env_file. Keep it secret.\n"
	} else if !strings.HasSuffix(e.values, "\n") {
		e.values += "\n"
	}
	e.values += lines
	if configfile.Child(e.Root(), "env_file") == nil {
		if bad := e.SetScalar("env_file", defaultEnvFile, e.section); bad != nil {
			return config.Errors{bad}
		}
	}
	return nil
}

// parse returns the new configuration.
func (e *edited) parse() (*config.Config, error) {
	read := func(path string) ([]byte, error) {
		if path == e.env.Name {
			return []byte(e.values), nil
		}
		return configfile.Read(path)
	}
	after, err := config.Parse(e.name, e.Bytes(), lookupEnv, ruleset.CheckConditions(), config.WithReader(read))
	if err == nil {
		err = after.CheckLoops()
	}
	return after, err
}

// save writes the files if the new configuration is valid and only the named upstreams differ, and closes them.
func (e *edited) save(stderr io.Writer, changed ...string) error {
	defer e.close()
	after, err := e.parse()
	if old := e.oldErrors(err); len(old) > 0 {
		folded(stderr, "nothing is changed: %s has these errors; correct them first:\n", e.name)
		return old
	}
	if err != nil {
		folded(stderr, "nothing is changed: %s would have these errors:\n", e.name)
		return err
	}
	if e.before != nil && e.before.EnvFile == after.EnvFile { // a new env_file may set variables of others
		if differ := differing(e.before, after, changed); differ != "" {
			return fmt.Errorf("nothing is changed: %s would change too; edit %s by hand", differ, e.name)
		}
	}
	e.warnNew(stderr, after.Warnings)
	hasValues := e.values != string(e.env.Data)
	if hasValues {
		if err := e.env.Overwrite([]byte(e.values)); err != nil {
			return configfile.Unwritable(e.env.Name, err)
		}
	}
	if err := e.file.Overwrite(e.Bytes()); err != nil {
		err = configfile.Unwritable(e.name, err)
		if hasValues { // nothing refers to them
			err = errors.Join(err, e.env.Revert())
		}
		return err
	}
	return nil
}

// oldErrors returns those of the errors of the new configuration that the file has already, where they are in the file.
func (e *edited) oldErrors(after error) (old config.Errors) {
	var errs config.Errors
	errors.As(after, &errs)
	for _, had := range e.errs {
		if slices.ContainsFunc(errs, func(now *config.Error) bool {
			return now.File == had.File && now.Path == had.Path && now.Msg == had.Msg
		}) {
			old = append(old, had)
		}
	}
	return old
}

// warnNew prints the warnings about upstreams that the file did not have before. Lines may have moved.
func (e *edited) warnNew(stderr io.Writer, warnings []config.Warning) {
	for _, w := range warnings {
		isSame := func(old config.Warning) bool { return old.Path == w.Path && old.Msg == w.Msg }
		if strings.HasPrefix(w.Path, e.section+".") && e.before != nil && !slices.ContainsFunc(e.before.Warnings, isSame) {
			folded(stderr, "%s: %s\n", console.StyleOf(stderr, lookupEnv).Warn("warning"), w)
		}
	}
}

// differing names an upstream that differs between two configurations and is not expected to.
func differing(before, after *config.Config, changed []string) string {
	hashes := make(map[string]string)
	for _, u := range before.Upstreams {
		hashes[u.Name] = u.Hash()
	}
	for _, u := range after.Upstreams {
		if hash, found := hashes[u.Name]; !slices.Contains(changed, u.Name) && (!found || hash != u.Hash()) {
			return u.Name
		}
		delete(hashes, u.Name)
	}
	for name := range hashes {
		if !slices.Contains(changed, name) {
			return name
		}
	}
	return ""
}

// add adds imported servers.
func (e *edited) add(im *hostimport.Result) error {
	for _, s := range im.Servers {
		if bad := e.Set(e.section, s.Name, s.Value); bad != nil {
			return config.Errors{bad}
		}
	}
	return e.addValues(im.Variables, im.Values.Reveal())
}

// tell prints where values went, which variables to set, and that a running gateway needs nothing.
func (e *edited) tell(out io.Writer, variables []hostimport.Variable) {
	var moved, unset []string
	for _, v := range variables {
		if v.Moved {
			moved = append(moved, v.Name)
		} else if !isSet(v.Name) && !sets(e.values, v.Name) {
			note := variableSource(v)
			if note != "" {
				note = "\n    " + note
			}
			unset = append(unset, v.Name+note)
		}
	}
	if len(moved) > 0 {
		folded(out, "%s has the values of:\n  %s\n", e.env.Name, strings.Join(moved, "\n  "))
		if e.env.OthersMayRead() {
			folded(out, "Other users of this machine may read that file. To change this: chmod 600 %s\n", e.env.Name)
		}
	}
	if len(unset) > 0 {
		folded(out, "Set these variables, in the environment or in %s:\n  %s\n", e.env.Name, strings.Join(unset, "\n  "))
	}
	e.tellApplied(out)
}

// tellApplied says that a running gateway needs nothing. None runs with a file that is new.
func (e *edited) tellApplied(out io.Writer) {
	if !e.isNew {
		fmt.Fprintln(out, "A gateway that runs with this file applies the change by itself.")
	}
}
