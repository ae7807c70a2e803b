package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"mcpgateway/internal/configfile"
	"mcpgateway/internal/console"
	"mcpgateway/internal/hostconfig"
)

// list prints the hosts of this machine and whether the gateway is connected.
func (o *connectOptions) list(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	style := console.StyleOf(out, lookupEnv)
	var rows [][]string
	var faults []error
	left := false // a host could be connected
	isGateway := leadsToGateway(cmd.Context())
	for _, h := range hostconfig.Hosts() {
		name, err := h.File(machine())
		if err != nil {
			return err
		}
		state, err := o.state(h, name, style, isGateway)
		if err != nil {
			faults = append(faults, err)
		}
		left = left || state == notConnected || state == style.Dim(hostNotFound)
		rows = append(rows, []string{h.Name, state, tilde(name)})
	}
	if err := console.Table(out, style, console.Columns(out), []string{"HOST", "GATEWAY", "FILE"}, rows); err != nil {
		return err
	}
	if len(faults) > 0 {
		fmt.Fprintln(out)
	}
	for _, err := range faults {
		folded(out, "%v\n", err)
	}
	if !left {
		return nil
	}
	return hint(out, "\nConnect one with: gateway connect HOST\n")
}

// States of hosts that can be connected.
const (
	notConnected = "not connected"
	hostNotFound = "host not found"
)

// state says whether a host has the gateway, and what is wrong with its file.
func (o *connectOptions) state(h hostconfig.Host, name string, style console.Style, isGateway func(url string) bool) (string, error) {
	f, err := hostconfig.Read(name)
	if err != nil {
		return style.Bad("unreadable"), configfile.Unreadable(tilde(name), err)
	}
	if !f.Exists {
		if _, err := os.Stat(filepath.Dir(name)); err == nil && filepath.Dir(name) != machine().Home {
			return notConnected, nil
		}
		if _, err := exec.LookPath(h.Program); err == nil {
			return notConnected, nil
		}
		return style.Dim(hostNotFound), nil
	}
	before, err := f.Before()
	if err != nil {
		return style.Bad("unreadable"), configfile.Unreadable(tilde(f.Backup()), err)
	}
	e, found, err := h.Entry(f.Data, o.name, before)
	switch {
	case err != nil:
		return style.Bad("file has errors"), inFile(tilde(name), err)
	case e.URL != "":
		return style.Good("connected by URL"), nil
	case e.Command != "":
		return startState("connected", h, f, style, o.name)
	}
	if others := h.Gateways(f.Data, isGateway); len(others) > 0 {
		return startState("connected as "+quotedNames(others), h, f, style, others...)
	}
	if !found {
		return notConnected, nil
	}
	return style.Warn("another server"), nil
}

// startState completes the state of a host with entries that start the gateway: a configuration of theirs may not exist any more.
func startState(state string, h hostconfig.Host, f *hostconfig.File, style console.Style, names ...string) (string, error) {
	var missing []error
	for _, name := range names {
		e, _, _ := h.Entry(f.Data, name, nil) // the caller has read the file, and only a URL depends on the one before
		file := e.Config()
		if !filepath.IsAbs(file) { // it depends on the host
			continue
		}
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			place := (&connectOptions{name: name}).place()
			missing = append(missing, fmt.Errorf("%s: %q starts with %s, which does not exist: restore it, or name another one with gateway connect %s%s -c FILE",
				tilde(f.Name), console.Line(name), console.Line(tilde(file)), h.Name, place))
		}
	}
	if len(missing) == 0 {
		return style.Good(state), nil
	}
	return style.Bad(state + ", configuration missing"), errors.Join(missing...)
}
