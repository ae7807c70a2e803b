package main

import (
	_ "embed"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed formula.rb.tmpl
var formulaText string

var formulaTemplate = template.Must(template.New("formula").Parse(formulaText))

type formula struct {
	Homepage string
	Version  string
	Systems  []formulaSystem
}

type formulaSystem struct {
	Name     string // as in Homebrew's on_macos and on_linux
	Archives []formulaArchive
}

type formulaArchive struct {
	Processor   string // as in Homebrew's on_arm and on_intel
	URL, SHA256 string
}

// writeFormula writes a Homebrew formula for the archives of macOS and Linux, if there are any.
func (r *release) writeFormula(archives map[target]string) error {
	f := formula{Homepage: r.url, Version: r.version}
	for _, system := range []struct{ goos, name string }{{"darwin", "macos"}, {"linux", "linux"}} {
		s := formulaSystem{Name: system.name}
		for _, processor := range []struct{ goarch, name string }{{"arm64", "arm"}, {"amd64", "intel"}} {
			path, ok := archives[target{system.goos, processor.goarch}]
			if !ok {
				continue
			}
			sum, err := sha256Of(path)
			if err != nil {
				return err
			}
			s.Archives = append(s.Archives, formulaArchive{processor.name, r.url + "/" + filepath.Base(path), sum})
		}
		if len(s.Archives) > 0 {
			f.Systems = append(f.Systems, s)
		}
	}
	if len(f.Systems) == 0 {
		return nil
	}
	w, err := os.Create(filepath.Join(r.out, "mcpgateway.rb"))
	if err != nil {
		return err
	}
	defer w.Close()
	if err := formulaTemplate.Execute(w, f); err != nil {
		return err
	}
	return w.Close()
}
