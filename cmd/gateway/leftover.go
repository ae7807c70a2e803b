package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mcpgateway/internal/configfile"
)

// written matches a line of the env_file in the form in which add and import write the value of a variable.
func written(variable string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(variable) + `=(?:'(?:[^'\n]|'\\'')*'|"(?:[^"\\\n]|\\.)*")(?:\n|\z)`)
}

// isLeftOver reports whether the env_file has a value that an earlier add or import wrote and that nothing refers to any
// more, neither the files of this configuration nor those of another one beside it.
func (e *edited) isLeftOver(variable string) bool {
	if e.before == nil || e.before.EnvFile == "" || strings.Count(e.values, variable+"=") != 1 || !written(variable).MatchString(e.values) {
		return false
	}
	if e.others == nil {
		e.others = slices.Concat(e.reads, e.beside())
	}
	return !slices.ContainsFunc(append([]string{e.text, e.values}, e.others...), func(text string) bool { return uses(text, variable) })
}

// hasLine reports whether a line of the env_file, and no other, sets a variable.
func (e *edited) hasLine(variable, line string) bool {
	return written(variable).MatchString(line) && len(setting(variable).FindAllString(e.values, -1)) == 1 && strings.Contains("\n"+e.values+"\n", "\n"+line+"\n")
}

// beside returns the other configurations in the folders of the configuration and of the env_file: they may name the same
// env_file.
func (e *edited) beside() (texts []string) {
	for _, folder := range slices.Compact([]string{filepath.Dir(e.name), filepath.Dir(e.env.Name)}) {
		entries, _ := os.ReadDir(folder) // a folder that cannot be read has no configuration either
		for _, f := range entries {
			path, ext := filepath.Join(folder, f.Name()), strings.TrimPrefix(filepath.Ext(f.Name()), ".")
			if f.IsDir() || !slices.Contains(configExtensions, strings.ToLower(ext)) || sameFile(path, e.name) {
				continue
			}
			if data, err := configfile.Read(path); err == nil {
				texts = append(texts, string(data))
			}
		}
	}
	return texts
}
