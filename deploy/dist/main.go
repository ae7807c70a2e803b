package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// platforms are the operating systems and processors of a release.
const platforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

// repository is the folder of the gateway's module. The program runs in its own folder.
const repository = "../.."

// options are the flags.
type options struct {
	out       string // created, and emptied of an earlier release
	platforms string
	version   string // without "v"; from the tag or the commit if empty
	url       string // where the archives will be downloaded from; the folder itself if empty
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.StringVar(&o.out, "out", "../../bin/dist", "folder for the files; an earlier release in it is removed")
	flag.StringVar(&o.platforms, "platforms", platforms, "comma-separated `OS/ARCH` pairs")
	flag.StringVar(&o.version, "version", "", "semantic version (default: the tag of the commit, else 0.0.0-dev with its date and id)")
	flag.StringVar(&o.url, "url", "", "`URL` of the folder where the archives will be downloaded from (default: file URL of -out)")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "dist: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := dist(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// release is what all files of one release have in common.
type release struct {
	options
	commit string
	date   time.Time // of the commit, and of every file in the archives and packages
	docs   string    // folder with the completions and manual pages
	work   string    // temporary
}

// dist writes the files of a release to o.out and their names to log.
func dist(ctx context.Context, o options, log io.Writer) error {
	targets, err := parseTargets(o.platforms)
	if err != nil {
		return err
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	if o.url == "" {
		o.url = "file://" + filepath.ToSlash(o.out)
	}
	o.url = strings.TrimSuffix(o.url, "/")
	r := &release{options: o}
	if err := r.readRepository(ctx); err != nil {
		return err
	}
	if err := emptyFolder(o.out); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "dist-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := r.makeDocs(ctx); err != nil {
		return err
	}
	archives := make(map[target]string)
	for _, t := range targets {
		if archives[t], err = r.buildTarget(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		fmt.Fprintln(log, archives[t])
	}
	if err := r.writeFormula(archives); err != nil {
		return err
	}
	return writeChecksums(o.out)
}

// buildTarget writes the archive, the bill of materials and, for Linux, the packages of one platform, and returns the path of the archive.
func (r *release) buildTarget(ctx context.Context, t target) (string, error) {
	binary := filepath.Join(r.work, t.String(), t.binary())
	if err := r.build(ctx, t, binary); err != nil {
		return "", err
	}
	archive, err := r.writeArchive(t, binary)
	if err != nil {
		return "", err
	}
	if err := r.writeSBOM(binary, archive+".cdx.json"); err != nil {
		return "", err
	}
	if t.os == "linux" {
		return archive, r.writePackages(t, binary)
	}
	return archive, nil
}

// emptyFolder creates a folder or empties it. A folder with anything but an earlier release is refused.
func emptyFolder(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	earlier := len(entries) == 0
	for _, e := range entries {
		earlier = earlier || e.Name() == checksumsFile
	}
	if !earlier {
		return fmt.Errorf("%s is not empty and has no %s, so it is not an earlier release: choose another folder with -out", folder, checksumsFile)
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	// An interrupted run leaves a folder that the next one recognizes.
	return os.WriteFile(filepath.Join(folder, checksumsFile), nil, 0o644)
}
