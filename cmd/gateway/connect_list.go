package main

import (
	"fmt"
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
		return style.Good("connected"), nil
	}
	if others := h.Gateways(f.Data, isGateway); len(others) > 0 {
		return style.Good("connected as " + quotedNames(others)), nil
	}
	if !found {
		return notConnected, nil
	}
	return style.Warn("another server"), nil
}
