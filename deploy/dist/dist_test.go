package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/sassoftware/go-rpmutils"
)

const testVersion = "1.2.3-rc.1"

// TestDist builds a release for this processor and uses its files as their users do.
func TestDist(t *testing.T) {
	o := options{out: filepath.Join(t.TempDir(), "dist"), platforms: "linux/" + runtime.GOARCH, version: testVersion}
	if err := dist(t.Context(), o, io.Discard); err != nil {
		t.Fatal(err)
	}
	base := "mcpgateway_" + testVersion + "_linux_" + runtime.GOARCH
	command(t, o.out, "sha256sum", "--check", "--strict", checksumsFile)
	if listed, found := len(strings.Split(strings.TrimSpace(read(t, o.out, checksumsFile)), "\n")), len(glob(t, o.out, "*"))-1; listed != found {
		t.Errorf("%s has %d lines for %d files", checksumsFile, listed, found)
	}

	unpacked := t.TempDir()
	command(t, unpacked, "tar", "-xzf", filepath.Join(o.out, base+".tar.gz"))
	binary := filepath.Join(unpacked, base, "gateway")
	t.Run("archive", func(t *testing.T) { testArchive(t, filepath.Join(unpacked, base)) })
	t.Run("binary", func(t *testing.T) { testBinary(t, binary) })
	t.Run("bill of materials", func(t *testing.T) { testSBOM(t, filepath.Join(o.out, base+".tar.gz.cdx.json"), binary) })
	t.Run("deb", func(t *testing.T) { testDeb(t, one(t, o.out, "*.deb")) })
	t.Run("rpm", func(t *testing.T) { testRPM(t, one(t, o.out, "*.rpm")) })
	t.Run("formula", func(t *testing.T) { testFormula(t, o.out) })
	t.Run("again", func(t *testing.T) { testAgain(t, o) })
}

func testArchive(t *testing.T, folder string) {
	for _, name := range []string{
		"LICENSE", "README.md", "CHANGELOG.md", "gateway.yaml.example", "mcpgateway.service", "man/gateway.1", "man/gateway-run.1",
		"completions/gateway.bash", "completions/_gateway", "completions/gateway.fish", "completions/gateway.ps1",
	} {
		if read(t, folder, name) == "" {
			t.Errorf("%s is empty", name)
		}
	}
}

// testBinary runs the binary in an empty folder, with an empty HOME and hardly any environment.
func testBinary(t *testing.T, binary string) {
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Dir = t.TempDir()
		cmd.Env = []string{"HOME=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("gateway %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	text := run("version")
	commit := strings.TrimSpace(command(t, "../..", "git", "rev-parse", "HEAD"))
	for _, want := range []string{"gateway " + testVersion + "\n", "commit " + commit[:12] + " of 20"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text := run("list", "tools"); !strings.Contains(text, "TOOLS") {
		t.Errorf("the demo lists no tools:\n%s", text)
	}
	if linked := command(t, "/", "file", "-L", binary); !strings.Contains(linked, "statically linked") {
		t.Error(linked)
	}
}

func testSBOM(t *testing.T, path, binary string) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range *bom.Components {
		got = append(got, c.Name+"@"+c.Version)
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"stdlib@" + info.GoVersion}
	for _, m := range info.Deps {
		want = append(want, m.Path+"@"+m.Version)
	}
	if !slices.Equal(got, want) {
		t.Errorf("components\n%q, the binary has\n%q", got, want)
	}
}

// testDeb installs the package in a root of its own, checks the unit there, and runs what the unit starts.
func testDeb(t *testing.T, deb string) {
	root := t.TempDir()
	for _, folder := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, "var/lib/dpkg/status"), "")
	dpkg := func(args ...string) string {
		args = append([]string{"--root=" + root, "--force-script-chrootless", "--force-not-root", "--log=/dev/null"}, args...)
		return asRoot(t, "dpkg", args...)
	}
	dpkg("--install", deb)
	if changed := dpkg("--verify", "mcpgateway"); changed != "" {
		t.Errorf("dpkg --verify:\n%s", changed)
	}
	for _, name := range []string{
		"usr/share/man/man1/gateway.1.gz", "usr/share/bash-completion/completions/gateway", "usr/share/zsh/vendor-completions/_gateway",
		"usr/share/fish/vendor_completions.d/gateway.fish", "usr/share/doc/mcpgateway/copyright", "etc/mcpgateway/gateway.yaml",
	} {
		read(t, root, name)
	}
	unit := filepath.Join(root, "usr/lib/systemd/system/mcpgateway.service")
	checkUnit(t, root, unit)
	runUnit(t, root, read(t, unit))

	write(t, filepath.Join(root, "etc/mcpgateway/gateway.yaml"), "# changed by the administrator\n")
	dpkg("--force-confdef", "--force-confold", "--install", deb)
	if text := read(t, root, "etc/mcpgateway/gateway.yaml"); !strings.Contains(text, "administrator") {
		t.Errorf("an upgrade replaced the configuration:\n%s", text)
	}
	dpkg("--remove", "mcpgateway")
	if _, err := os.Stat(filepath.Join(root, "usr/bin/gateway")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the binary is still there after the removal: %v", err)
	}
}

// checkUnit lets systemd read the unit as it is installed, and rate its hardening.
func checkUnit(t *testing.T, root, unit string) {
	text := strings.ReplaceAll(read(t, unit), "/usr/bin/gateway", filepath.Join(root, "usr/bin/gateway"))
	copied := filepath.Join(t.TempDir(), "mcpgateway.service")
	write(t, copied, text)
	if out := command(t, "/", "systemd-analyze", "verify", "--man=no", copied); out != "" {
		t.Errorf("systemd-analyze verify:\n%s", out)
	}
	command(t, "/", "systemd-analyze", "security", "--offline=yes", "--threshold=25", copied)
}

// runUnit runs the command of the unit in the root where the package is installed, which has nothing else, with a configuration that the
// administrator has added an upstream and the audit to, until the gateway is healthy. Then the administrator asks for its status, and reloads it.
func runUnit(t *testing.T, root, unit string) {
	config := filepath.Join(root, "etc/mcpgateway/gateway.yaml")
	text := read(t, config)
	edited := strings.Replace(text, "upstreams: {}", "upstreams: {demo: {url: \"http://127.0.0.1:9/mcp\"}}", 1)
	if edited == text {
		t.Fatalf("no place for upstreams in\n%s", text)
	}
	write(t, config, strings.Replace(edited, "#telemetry:", "telemetry:", 1))
	start := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(unit)
	if start == nil {
		t.Fatal("the unit has no ExecStart")
	}
	environment := regexp.MustCompile(`(?m)^Environment=(.*)$`).FindStringSubmatch(unit)
	if environment == nil {
		t.Fatal("the unit has no Environment")
	}
	if err := os.MkdirAll(filepath.Join(root, "var/lib/mcpgateway"), 0o700); err != nil { // StateDirectory
		t.Fatal(err)
	}
	script := `
		ip link set lo up
		env ` + environment[1] + ` chroot "$1" ` + start[1] + ` & gateway=$!
		until chroot "$1" /usr/bin/gateway health -c /etc/mcpgateway/gateway.yaml; do
			kill -0 $gateway || exit 1
		done
		export HOME=/root
		chroot "$1" /usr/bin/gateway status && chroot "$1" /usr/bin/gateway reload -c /etc/mcpgateway/gateway.yaml || failed=1
		kill $gateway && wait $gateway && test -z "$failed"`
	out := asRoot(t, "unshare", "--net", "bash", "-c", script, "bash", root)
	if !strings.Contains(out, "/etc/mcpgateway/gateway.yaml\nProcess ") {
		t.Errorf("the status of the service is missing:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(root, "var/lib/mcpgateway/audit.jsonl")); err != nil {
		t.Errorf("the audit that gateway.yaml proposes: %v", err)
	}
}

func testRPM(t *testing.T, path string) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rpm, err := rpmutils.ReadRpm(f)
	if err != nil {
		t.Fatal(err)
	}
	files, err := rpm.Header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	modes := make(map[string]int)
	for _, f := range files {
		modes[f.Name()] = f.Mode() & 0o777
	}
	for name, mode := range map[string]int{
		"/usr/bin/gateway": 0o755, "/usr/lib/systemd/system/mcpgateway.service": 0o644, "/etc/mcpgateway/gateway.yaml": 0o644,
		"/usr/share/man/man1/gateway.1.gz": 0o644, "/usr/share/zsh/site-functions/_gateway": 0o644,
	} {
		if modes[name] != mode {
			t.Errorf("%s has mode %o, want %o", name, modes[name], mode)
		}
	}
	if v, err := rpm.Header.GetString(rpmutils.VERSION); err != nil || v != "1.2.3~rc.1" {
		t.Errorf("version %q, %v", v, err)
	}
}

func testFormula(t *testing.T, out string) {
	text := read(t, out, "mcpgateway.rb")
	urls := regexp.MustCompile(`url "(.*)"\s+sha256 "(.*)"`).FindAllStringSubmatch(text, -1)
	if len(urls) != 1 {
		t.Fatalf("%d archives in\n%s", len(urls), text)
	}
	path, ok := strings.CutPrefix(urls[0][1], "file://")
	if sum, err := sha256Of(path); !ok || err != nil || sum != urls[0][2] {
		t.Errorf("%s: %s, %v, want %s", urls[0][1], sum, err, urls[0][2])
	}
}

// testAgain replaces an earlier release by one with the same bytes, and nothing else.
func testAgain(t *testing.T, o options) {
	before := read(t, o.out, checksumsFile)
	if err := dist(t.Context(), o, io.Discard); err != nil {
		t.Fatal(err)
	}
	if after := read(t, o.out, checksumsFile); after != before {
		t.Errorf("another run gives other files:\n%s\nbefore:\n%s", after, before)
	}
	broken := options{out: t.TempDir(), platforms: o.platforms + ",linux/nonsense", version: testVersion}
	for range 2 { // the second one in what the first one left
		if err := dist(t.Context(), broken, io.Discard); err == nil || !strings.Contains(err.Error(), "unsupported GOOS/GOARCH") {
			t.Errorf("a platform that does not exist: %v", err)
		}
	}
	other := t.TempDir()
	write(t, filepath.Join(other, "thesis.tex"), "precious")
	o.out = other
	if err := dist(t.Context(), o, io.Discard); err == nil || !strings.Contains(err.Error(), "not an earlier release") {
		t.Errorf("a folder with other files: %v", err)
	}
	if read(t, other, "thesis.tex") != "precious" {
		t.Error("a file was lost")
	}
}

func TestParseTargets(t *testing.T) {
	all, err := parseTargets(platforms)
	if err != nil || len(all) != 6 {
		t.Errorf("%v, %v", all, err)
	}
	for _, bad := range []string{"", "linux", "linux/", "/amd64", "linux/amd64,"} {
		if got, err := parseTargets(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
	if got := (target{"windows", "amd64"}).binary(); got != "gateway.exe" {
		t.Error(got)
	}
}

// TestArchives checks names, modes and times of the entries in both formats.
func TestArchives(t *testing.T) {
	source := filepath.Join(t.TempDir(), "file")
	write(t, source, "text")
	entries := []entry{{"gateway", source, 0o755}, {"man/gateway.1", source, 0o644}}
	date := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	type got struct {
		name string
		mode os.FileMode
		text string
	}
	want := []got{{"folder/gateway", 0o755, "text"}, {"folder/man/gateway.1", 0o644, "text"}}

	var tarred bytes.Buffer
	if err := writeTar(&tarred, "folder", entries, date); err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(&tarred)
	if err != nil {
		t.Fatal(err)
	}
	var all []got
	for archive := tar.NewReader(unzipped); ; {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil || !h.ModTime.Equal(date) {
			t.Fatal(h, err)
		}
		text, _ := io.ReadAll(archive)
		all = append(all, got{h.Name, h.FileInfo().Mode(), string(text)})
	}
	if !slices.Equal(all, want) {
		t.Errorf("tar: %v", all)
	}

	var zipped bytes.Buffer
	if err := writeZip(&zipped, "folder", entries, date); err != nil {
		t.Fatal(err)
	}
	archive, err := zip.NewReader(bytes.NewReader(zipped.Bytes()), int64(zipped.Len()))
	if err != nil {
		t.Fatal(err)
	}
	all = nil
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil || !f.Modified.Equal(date) {
			t.Fatal(f.Modified, err)
		}
		text, _ := io.ReadAll(r)
		all = append(all, got{f.Name, f.Mode(), string(text)})
	}
	if !slices.Equal(all, want) {
		t.Errorf("zip: %v", all)
	}
}

// asRoot runs a command as root, in a user namespace if the tests run as an ordinary user.
func asRoot(t *testing.T, name string, args ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		name, args = "unshare", append([]string{"--map-root-user", name}, args...)
	}
	return command(t, "/", name, args...)
}

// command returns what a command prints. It fails the test if the command is missing or fails.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func glob(t *testing.T, folder, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func one(t *testing.T, folder, pattern string) string {
	t.Helper()
	found := glob(t, folder, pattern)
	if len(found) != 1 {
		t.Fatalf("%d files are %s: %q", len(found), pattern, found)
	}
	return found[0]
}
