package config

import (
	"os"
	"path/filepath"
	"strings"
)

// checkFolders warns of programs that get a folder as an argument which has the files of the gateway: a server of files would
// give its tools the secrets, and let them add a program that the gateway starts.
func (doc *document) checkFolders(d *decoder) {
	own := []struct{ name, path string }{
		{filepath.Base(d.file), d.file}, {filepath.Base(doc.EnvFile), doc.EnvFile}, {"the state_dir", doc.StateDir},
	}
	var above [][]os.FileInfo // the folders that contain each of own
	for _, o := range own {
		above = append(above, foldersOf(o.path))
	}
	for i := range doc.Upstreams {
		e := &doc.Upstreams[i]
		if e.Disabled || e.Command == "" {
			continue
		}
		var names []string
		for j, o := range own {
			if e.hasFolder(above[j]) {
				names = append(names, o.name)
			}
		}
		if len(names) > 0 {
			e.at.warnf("args", "%s may read and write %s: give it another folder", e.Name, listed(names))
		}
	}
}

// hasFolder reports whether an argument is one of some folders.
func (e *entry) hasFolder(folders []os.FileInfo) bool {
	if len(folders) == 0 {
		return false
	}
	for _, arg := range e.Args {
		info, err := os.Stat(inFolder(e.Cwd, arg)) // without a cwd the program has that of the gateway
		if arg == "" || err != nil || !info.IsDir() {
			continue
		}
		for _, f := range folders {
			if os.SameFile(f, info) {
				return true
			}
		}
	}
	return false
}

// foldersOf returns the folders that contain a file or folder, which need not exist, and itself if it is a folder: by the path as it
// is written, and by the one without symbolic links.
func foldersOf(path string) []os.FileInfo {
	if path == "" {
		return nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	var all []os.FileInfo
	paths := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		paths = append(paths, real)
	}
	for _, at := range paths {
		for up := ""; at != up; at, up = filepath.Dir(at), at {
			if info, err := os.Stat(at); err == nil && info.IsDir() {
				all = append(all, info)
			}
		}
	}
	return all
}

// listed joins words for a sentence.
func listed(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
