package main

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/wire"
)

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version and the supported revisions of the protocol",
		Example: "  gateway version\n  gateway version --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(cmd.OutOrStdout(), versionNow())
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// versioned is the output of version --json. Later versions add members, and never rename or remove
// one.
type versioned struct {
	Version   string   `json:"version"`
	Commit    string   `json:"commit,omitempty"` // empty if the build does not know it
	Date      string   `json:"date,omitempty"`   // of the commit, as RFC 3339
	Go        string   `json:"go"`
	Platform  string   `json:"platform"`  // operating system and processor, as Go names them
	Revisions []spoken `json:"revisions"` // the newest first
}

type spoken struct {
	Revision wire.Revision `json:"revision"`
	Era      string        `json:"era"`
}

func versionNow() versioned {
	v := versioned{Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	v.Commit, v.Date = source()
	for _, r := range append(wire.ModernRevisions(), wire.LegacyRevisions()...) {
		v.Revisions = append(v.Revisions, spoken{r, r.Era().String()})
	}
	return v
}

// versionText is the output of the verb version and of the flag.
func versionText() string {
	v := versionNow()
	out := "gateway " + v.Version + "\n"
	if v.Commit != "" {
		out += fmt.Sprintf("  commit %.12s of %s\n", v.Commit, v.Date)
	}
	out += fmt.Sprintf("  built with %s for %s\n", v.Go, v.Platform)
	for _, r := range v.Revisions {
		out += fmt.Sprintf("  speaks %s (%s)\n", r.Revision, r.Era)
	}
	return out
}

// release, commit and date are set by -ldflags "-X main.release=..." for a release or an image, which is
// built without the repository. The date is that of the commit, as RFC 3339.
var release, commit, date string

// source returns the commit of the build and its date, as the linker's flags or Go recorded them.
func source() (id, at string) {
	if commit != "" {
		return commit, date
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", ""
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			id = s.Value
		case "vcs.time":
			at = s.Value
		}
	}
	return id, at
}

// version is the release, else the version of the module or the commit of the build.
func version() string {
	if release != "" {
		return release
	}
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

// pseudoVersion has the form in which Go names a commit without a tag.
var pseudoVersion = regexp.MustCompile(`[-.]\d{14}-[0-9a-f]{12}(\+.*)?$`)

// versionOf is the version of a build without a release: the tag of the module, else the commit, its day,
// and whether files were changed.
func versionOf(info *debug.BuildInfo) string {
	if info == nil {
		return "unknown"
	}
	vcs := make(map[string]string)
	for _, s := range info.Settings {
		vcs[s.Key] = s.Value
	}
	// Without a tag Go derives a version from the commit, which looks like a release. A downloaded module
	// has only that version.
	made := pseudoVersion.MatchString(info.Main.Version) && vcs["vcs.revision"] != ""
	if v := info.Main.Version; v != "" && v != "(devel)" && !made {
		return v
	}
	out := "devel"
	if r := vcs["vcs.revision"]; r != "" {
		out += "-" + r[:min(12, len(r))]
	}
	if at, err := time.Parse(time.RFC3339, vcs["vcs.time"]); err == nil {
		out += "-" + at.UTC().Format("20060102")
	}
	if vcs["vcs.modified"] == "true" {
		out += "-modified"
	}
	return out
}
