package deploy

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
)

// TestSidecar runs the programs of deploy/sidecar in their order: the upstream
// server, the gateway and the agent, each with its container's command.
func TestSidecar(t *testing.T) {
	var job *batch.Job
	configs := map[string]*core.ConfigMap{}
	var closed map[string]string // labels of pods that admit no traffic
	for _, o := range decodeAll(t, "sidecar.yaml", string(read(t, "deploy/sidecar/sidecar.yaml"))) {
		switch o := o.Object.(type) {
		case *batch.Job:
			job = o
		case *core.ConfigMap:
			configs[o.Name] = o
		case *networking.NetworkPolicy:
			if slices.Contains(o.Spec.PolicyTypes, networking.PolicyTypeIngress) && len(o.Spec.Ingress) == 0 {
				closed = o.Spec.PodSelector.MatchLabels
			}
		}
	}
	if job == nil {
		t.Fatal("no Job")
	}
	pod := job.Spec.Template.Spec
	// The upstream server listens on every address of the pod.
	if len(closed) == 0 || !maps.Equal(closed, job.Spec.Template.Labels) {
		t.Errorf("the network policy protects the pods %v, but the agent's pod has the labels %v", closed, job.Spec.Template.Labels)
	}
	checkRestricted(t, pod)
	checkVolumes(t, pod)

	// mounted returns the content of mounted ConfigMaps by path in the container.
	mounted := func(c core.Container) map[string]string {
		files := map[string]string{}
		for _, m := range c.VolumeMounts {
			for _, v := range pod.Volumes {
				if v.Name == m.Name && v.ConfigMap != nil {
					config := configs[v.ConfigMap.Name]
					if config == nil {
						t.Fatalf("the volume %s is of the ConfigMap %s, which does not exist", v.Name, v.ConfigMap.Name)
					}
					for name, text := range config.Data {
						files[m.MountPath+"/"+name] = text
					}
				}
			}
		}
		return files
	}
	if len(pod.InitContainers) != 2 || len(pod.Containers) != 1 {
		t.Fatalf("%d sidecars and %d containers", len(pod.InitContainers), len(pod.Containers))
	}
	upstream, gw, agent := pod.InitContainers[0], pod.InitContainers[1], pod.Containers[0]
	startNPX(t, upstream.Command, environment(upstream), upstream.StartupProbe.TCPSocket.Port.IntValue())

	config := mounted(gw)[gw.Args[2]]
	if config == "" || !slices.Equal(gw.Args[:2], []string{"run", "-c"}) {
		t.Fatalf("the gateway reads %v, but has %v", gw.Args, mounted(gw))
	}
	admin := int(gw.Ports[0].ContainerPort)
	if !strings.Contains(config, "listen: 127.0.0.1:8080") {
		t.Error("the gateway does not listen on loopback")
	}
	p := serveConfig(t, config, admin)
	for name, probe := range map[string]*core.Probe{"startup": gw.StartupProbe, "liveness": gw.LivenessProbe} {
		if probe.HTTPGet.Port.String() != gw.Ports[0].Name {
			t.Fatalf("the %s probe uses the port %v", name, probe.HTTPGet.Port)
		}
		p.until(name, func() bool {
			return status(fmt.Sprintf("http://127.0.0.1:%d%s", admin, probe.HTTPGet.Path)) == http.StatusOK
		})
	}

	// The agent's script runs with the npm packages of the tests.
	script := agent.Args[0]
	if want := "@modelcontextprotocol/client@"; !strings.Contains(script, want) {
		t.Fatalf("the agent does not install %s…: %s", want, script)
	}
	dir, bin := t.TempDir(), t.TempDir()
	files := mounted(agent)
	for path, text := range files {
		write(t, filepath.Join(dir, path), text)
	}
	write(t, filepath.Join(bin, "npm"), "#!/bin/sh\nln -s "+npm()+" node_modules\n")
	if err := os.Chmod(filepath.Join(bin, "npm"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path := range files {
		script = strings.ReplaceAll(script, path, filepath.Join(dir, path))
	}
	script = strings.ReplaceAll(script, "/srv/", dir+"/srv/")
	cmd := exec.Command(agent.Command[0], agent.Command[1], script)
	cmd.Env = append(environment(agent), "PATH="+bin+":"+npm(".bin")+":/usr/bin:/bin")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "everything__echo: ") || !strings.Contains(string(out), "> Echo: hello") {
		t.Errorf("the agent ended with %v:\n%s", err, out)
	}
	if grace := *pod.TerminationGracePeriodSeconds; grace < 25 {
		t.Errorf("the grace period is %d s; want at least 25 s for a drain_timeout of 20 s", grace)
	}
}

// TestChartSidecarUpstream checks that the server in the gateway's pod listens at
// the address of the configuration.
func TestChartSidecarUpstream(t *testing.T) {
	r := mustRender(t, "gateway", string(read(t, chartDir, "values-sidecar.yaml")))
	upstream := r.pod().InitContainers[0]
	port := int(upstream.Ports[0].ContainerPort)
	if upstream.StartupProbe.TCPSocket.Port.StrVal != upstream.Ports[0].Name {
		t.Errorf("the probe uses the port %v", upstream.StartupProbe.TCPSocket.Port)
	}
	startNPX(t, upstream.Command, environment(upstream), port)
	p := serveConfig(t, r.config.Data["gateway.yaml"], r.port("admin"))
	p.until("ready", func() bool {
		return status(fmt.Sprintf("http://127.0.0.1:%d/readyz", r.port("admin"))) == http.StatusOK
	})
	if answer := modern(t, fmt.Sprintf("http://127.0.0.1:%d/mcp", r.port("mcp")), "tools/list", map[string]any{}); !strings.Contains(answer, `"everything__echo"`) {
		t.Errorf("no tool of the server in %s", answer)
	}
}

func environment(c core.Container) []string {
	var env []string
	for _, e := range c.Env {
		env = append(env, e.Name+"="+e.Value)
	}
	return env
}

// startNPX starts the program of `npx -y PACKAGE@VERSION ARGS` from the installed
// packages, and waits until it listens on a port.
func startNPX(t *testing.T, command, env []string, port int) {
	t.Helper()
	if len(command) < 3 || command[0] != "npx" || command[1] != "-y" {
		t.Fatalf("the command %v is not npx -y PACKAGE", command)
	}
	name := command[2][:strings.LastIndex(command[2], "@")]
	cmd := exec.Command(npm(".bin", "node"), append([]string{npm(name, "dist", "index.js")}, command[3:]...)...)
	cmd.Dir, cmd.Env = t.TempDir(), env
	p := start(t, cmd)
	p.until("listening", func() bool {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

// resolve makes a host name resolve to loopback in this mount namespace.
func resolve(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hosts")
	write(t, file, "127.0.0.1 localhost "+name+"\n")
	if err := unix.Mount(file, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount("/etc/hosts", unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// statusFor returns the status of a POST with this Host header.
func statusFor(t *testing.T, url, host string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
