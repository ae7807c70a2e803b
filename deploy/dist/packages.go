package main

import (
	"compress/gzip"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// writePackages writes the .deb and the .rpm that nfpm.yaml describes.
func (r *release) writePackages(t target, binary string) error {
	man := filepath.Join(r.work, "man-gz")
	if err := compressPages(filepath.Join(r.docs, "man"), man); err != nil {
		return err
	}
	variables := map[string]string{
		"ARCH": t.arch, "VERSION": r.version, "BINARY": binary, "MAN": man,
		"COMPLETIONS": filepath.Join(r.docs, "completions"),
	}
	config, err := nfpm.ParseFileWithEnvMapping("nfpm.yaml", func(name string) string { return variables[name] })
	if err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		if err := r.writePackage(config, format); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) writePackage(config nfpm.Config, format string) error {
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	info.MTime = r.date
	f, err := os.Create(filepath.Join(r.out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := packager.Package(info, f); err != nil {
		return err
	}
	return f.Close()
}

// compressPages compresses the manual pages, as distributions expect them.
func compressPages(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	pages, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, p := range pages {
		if err := compressPage(filepath.Join(from, p.Name()), filepath.Join(to, p.Name()+".gz")); err != nil {
			return err
		}
	}
	return nil
}

func compressPage(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}
