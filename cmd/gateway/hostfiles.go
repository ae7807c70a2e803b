package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
	"mcpgateway/internal/console"
	"mcpgateway/internal/hostconfig"
	"mcpgateway/internal/hostimport"
)

// hostPlace is a place where a host keeps its servers.
type hostPlace struct{ title, path string }

// hostPlaces are the places on this machine and in this folder.
func hostPlaces() []hostPlace {
	var places []hostPlace
	m := machine()
	for _, h := range hostconfig.Hosts() {
		if path, err := h.File(m); err == nil {
			places = append(places, hostPlace{h.Title, path})
		}
	}
	if m.Home != "" {
		goose := filepath.Join(m.Home, ".config", "goose", "config.yaml")
		if runtime.GOOS == "windows" {
			goose = filepath.Join(m.Env("APPDATA"), "Block", "goose", "config", "config.yaml")
		}
		places = append(places, hostPlace{"Goose", goose}, hostPlace{"Copilot CLI", filepath.Join(m.Home, ".copilot", "mcp-config.json")})
	}
	for _, path := range []string{".mcp.json", filepath.Join(".cursor", "mcp.json"), filepath.Join(".vscode", "mcp.json")} {
		full, err := filepath.Abs(path)
		known := slices.ContainsFunc(places, func(p hostPlace) bool { return sameFile(p.path, full) }) // this folder is the home folder
		if err == nil && !known {
			places = append(places, hostPlace{"this folder", full})
		}
	}
	return places
}

// readHostFiles reads the files of hosts that have servers, and says what it found. A file that is missing or has errors is
// named, and does not keep the others from being read. served is as in [hostimport.Options].
func readHostFiles(out io.Writer, served servedFunc) []hostimport.File {
	var files []hostimport.File
	var missing []string
	fmt.Fprintln(out, "Servers of hosts on this machine:")
	for _, place := range hostPlaces() {
		f, err := hostFile(place.path)
		if errors.Is(err, os.ErrNotExist) {
			if place.title != "this folder" {
				missing = append(missing, place.title)
			}
			continue
		}
		note := ""
		var im *hostimport.Result
		if err == nil {
			f.Name = tilde(place.path)
			im, err = hostimport.Options{Program: programName(), Into: config.Default(lookupEnv), Served: served}.Import(f)
		}
		var errs config.Errors
		switch {
		case errors.As(err, &errs) && strings.HasPrefix(errs[0].Msg, "no servers"):
			note = "no servers"
		case err != nil:
			note = "the whole file is left out: " + console.Line(strings.Split(err.Error(), "\n")[0])
		default:
			var names []string
			for _, s := range im.Servers {
				names = append(names, s.Name)
			}
			if note = strings.Join(names, ", "); note == "" {
				note = "no servers to import"
				if i := slices.IndexFunc(im.Warnings, func(w configfile.Warning) bool { return strings.Contains(w.Msg, "left out") }); i >= 0 {
					note += ": " + console.Line(im.Warnings[i].Path+" "+im.Warnings[i].Msg)
				}
			} else {
				files = append(files, f)
			}
		}
		fmt.Fprintf(out, "  %s (%s):\n%s\n", place.title, tilde(place.path), console.Wrap(note, "    ", helpColumns))
	}
	if len(missing) > 0 {
		fmt.Fprintf(out, "  Not found:\n%s\n", console.Wrap(strings.Join(missing, ", "), "    ", helpColumns))
	}
	return files
}

// merge adds the servers of hosts' files, saves the files, and says what has changed. It returns the number of new
// upstreams.
func (e *edited) merge(cmd *cobra.Command, files []hostimport.File) (int, error) {
	if e.before == nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing is imported: fix these errors first:")
		return 0, e.errs
	}
	im, err := hostimport.Options{Into: e.before, Taken: e.taken, Program: programName(), Served: servedFor(cmd.Context(), e.name)}.Import(files...)
	if err != nil {
		return 0, err
	}
	stderr, out := cmd.ErrOrStderr(), cmd.OutOrStdout()
	for _, w := range im.Warnings {
		folded(stderr, "%s\n", w)
	}
	var names []string
	for _, s := range im.Servers {
		s.Value.HeadComment = s.From
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		folded(out, "Nothing is new for %s.\n", e.name)
		return 0, nil
	}
	if err := e.add(im); err != nil {
		return 0, err
	}
	after, err := e.parse()
	if err != nil {
		folded(stderr, "nothing is imported: with these servers %s would have these errors:\n", e.name)
		return 0, err
	}
	if err := e.save(stderr, names...); err != nil {
		return 0, err
	}
	folded(out, "Added to %s:\n  %s\n", e.name, strings.Join(names, "\n  "))
	e.tell(out, im.Variables)
	tellMissingFiles(out, after, names)
	return len(names), nil
}

// tellMissingFiles names the imported upstreams that need files which cannot be used. Variables that are not set are named elsewhere.
func tellMissingFiles(out io.Writer, cfg *config.Config, imported []string) {
	for _, u := range cfg.Upstreams {
		for _, v := range u.Unset {
			if v.Name == "" && slices.Contains(imported, u.Name) {
				folded(out, "%s stays down until its file can be used: %s\n", u.Name, &v.Place)
			}
		}
	}
}
