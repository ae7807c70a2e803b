package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// checksumsFile has a line for each file of the release, in the form of sha256sum.
const checksumsFile = "checksums.txt"

// entry is one file of an archive.
type entry struct {
	name   string // in the archive
	source string
	mode   os.FileMode
}

// entries are the files of the archive of a platform, in the order of their names.
func (r *release) entries(t target, binary string) ([]entry, error) {
	out := []entry{{t.binary(), binary, 0o755}}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "gateway.yaml.example"} {
		out = append(out, entry{name, filepath.Join(repository, name), 0o644})
	}
	service := map[string]string{"linux": "mcpgateway.service", "darwin": "mcpgateway.plist"}[t.os]
	if service != "" {
		out = append(out, entry{service, service, 0o644})
	}
	for _, folder := range []string{"completions", "man"} {
		files, err := os.ReadDir(filepath.Join(r.docs, folder))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			out = append(out, entry{folder + "/" + f.Name(), filepath.Join(r.docs, folder, f.Name()), 0o644})
		}
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// writeArchive writes a .zip for Windows and a .tar.gz for the others. The same files give the same bytes.
func (r *release) writeArchive(t target, binary string) (string, error) {
	entries, err := r.entries(t, binary)
	if err != nil {
		return "", err
	}
	folder := fmt.Sprintf("mcpgateway_%s_%s", r.version, t)
	write, extension := writeTar, ".tar.gz"
	if t.os == "windows" {
		write, extension = writeZip, ".zip"
	}
	path := filepath.Join(r.out, folder+extension)
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := write(f, folder, entries, r.date); err != nil {
		return "", err
	}
	return path, f.Close()
}

func writeTar(w io.Writer, folder string, entries []entry, date time.Time) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	for _, e := range entries {
		err := e.copy(func(size int64) (io.Writer, error) {
			return archive, archive.WriteHeader(&tar.Header{Name: folder + "/" + e.name, Mode: int64(e.mode), Size: size, ModTime: date})
		})
		if err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zipped.Close()
}

func writeZip(w io.Writer, folder string, entries []entry, date time.Time) error {
	archive := zip.NewWriter(w)
	for _, e := range entries {
		err := e.copy(func(int64) (io.Writer, error) {
			header := &zip.FileHeader{Name: folder + "/" + e.name, Method: zip.Deflate, Modified: date}
			header.SetMode(e.mode)
			return archive.CreateHeader(header)
		})
		if err != nil {
			return err
		}
	}
	return archive.Close()
}

// copy copies the file to the writer that open returns for its size.
func (e entry) copy(open func(size int64) (io.Writer, error)) error {
	f, err := os.Open(e.source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	w, err := open(info.Size())
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// writeChecksums writes the checksums of all files of the folder.
func writeChecksums(folder string) error {
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, f := range files {
		if f.Name() == checksumsFile {
			continue
		}
		sum, err := sha256Of(filepath.Join(folder, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, f.Name())
	}
	return os.WriteFile(filepath.Join(folder, checksumsFile), []byte(lines.String()), 0o644)
}

func sha256Of(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
