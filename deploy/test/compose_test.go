package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

// compose loads deploy/compose.yaml as docker compose does. A key that the
// specification does not define fails the test.
func compose(t *testing.T) *types.Project {
	t.Helper()
	path := filepath.Join(repository(), "deploy", "compose.yaml")
	details := types.ConfigDetails{WorkingDir: filepath.Dir(path), ConfigFiles: []types.ConfigFile{{Filename: path}}, Environment: types.Mapping{}}
	project, err := loader.LoadWithContext(t.Context(), details)
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// TestCompose checks that mounted files exist, that ports are published on loopback
// only, and that containers have few privileges.
func TestCompose(t *testing.T) {
	project := compose(t)
	ports := map[string]string{}
	for name, s := range project.Services {
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes the port %s on %q", name, p.Published, p.HostIP)
			}
			if other := ports[p.Published]; other != "" {
				t.Errorf("%s and %s publish the port %s", other, name, p.Published)
			}
			ports[p.Published] = name
		}
		if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") || s.Privileged {
			t.Errorf("%s has more privileges than it needs: cap_drop %v, security_opt %v", name, s.CapDrop, s.SecurityOpt)
		}
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind {
				if _, err := os.Stat(v.Source); err != nil {
					t.Errorf("%s mounts a missing file: %v", name, err)
				}
				if !v.ReadOnly {
					t.Errorf("%s may write to %s", name, v.Source)
				}
			}
		}
		for other := range s.DependsOn {
			if _, ok := project.Services[other]; !ok {
				t.Errorf("%s depends on %s, which does not exist", name, other)
			}
		}
	}
	gw := project.Services["gateway"]
	if _, err := os.Stat(filepath.Join(gw.Build.Context, gw.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
	if gw.StopGracePeriod == nil || gw.StopGracePeriod.String() != "30s" {
		t.Errorf("the grace period is %v; want 30s, which covers a drain_timeout of 20s", gw.StopGracePeriod)
	}
	if !gw.ReadOnly {
		t.Error("the gateway's root is writable")
	}
}

// TestComposeGateway runs the gateway of compose.yaml with its configuration and
// its upstreams. The upstream over HTTP runs with its container's command; the
// child processes of the gateway run from the installed packages.
func TestComposeGateway(t *testing.T) {
	project := compose(t)
	resolve(t, "everything")
	everything := project.Services["everything"]
	var env []string
	for key, value := range everything.Environment {
		env = append(env, key+"="+*value)
	}
	startNPX(t, everything.Command, env, 3001)

	config := mountedAt(t, project, "gateway", "/etc/mcpgateway/gateway.yaml")
	// The fake npx runs the installed npm package. There is no uvx.
	bin := t.TempDir()
	write(t, filepath.Join(bin, "npx"), "#!/bin/sh\nexec "+npm(".bin", "node")+" "+npm("@modelcontextprotocol", "server-memory", "dist", "index.js")+"\n")
	if err := os.Chmod(filepath.Join(bin, "npx"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := serveConfig(t, string(readFile(t, config)), 9090, "PATH="+bin+":/usr/bin:/bin")
	health := project.Services["gateway"].HealthCheck
	if health.Test[0] != "CMD" || health.Test[1] != "/usr/local/bin/gateway" {
		t.Fatalf("health check %v", health.Test)
	}
	args := slices.Clone(health.Test[2:])
	args[slices.Index(args, "-c")+1] = config
	p.until("ready", func() bool { return gateway(t, nil, args...).Run() == nil })
	// On a busy machine the upstream on Node may need longer than startup_wait.
	p.until("serving both", func() bool {
		answer := modern(t, "http://127.0.0.1:8080/mcp", "tools/list", map[string]any{})
		return strings.Contains(answer, `"everything__echo"`) && strings.Contains(answer, `"memory__create_entities"`)
	})
	if got := statusFor(t, "http://127.0.0.1:8080/mcp", "evil.example.com"); got != 403 {
		t.Errorf("a request for another host gets status %d, want 403", got)
	}
}

// TestMonitoring checks that Prometheus scrapes the gateway's admin port and loads
// the alerts, and that Grafana finds its data source and its dashboard.
func TestMonitoring(t *testing.T) {
	project := compose(t)
	var prometheus struct {
		Global struct {
			ScrapeInterval     string `json:"scrape_interval"`
			EvaluationInterval string `json:"evaluation_interval"`
		} `json:"global"`
		RuleFiles     []string `json:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string `json:"job_name"`
			StaticConfigs []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	decode(t, readFile(t, mountedAt(t, project, "prometheus", "/etc/prometheus/prometheus.yml")), &prometheus)
	var rules []string
	for _, glob := range prometheus.RuleFiles {
		found, err := filepath.Glob(mountedAt(t, project, "prometheus", glob))
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, found...)
	}
	var want []string
	for _, name := range ruleFiles(t) {
		want = append(want, filepath.Join(repository(), name))
	}
	if !slices.Equal(rules, want) {
		t.Errorf("Prometheus loads the rules %v, want %v", rules, want)
	}
	var config struct {
		Admin struct {
			Listen string `json:"listen"`
		} `json:"admin"`
	}
	if err := yaml.Unmarshal(readFile(t, mountedAt(t, project, "gateway", "/etc/mcpgateway/gateway.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	target := strings.Replace(config.Admin.Listen, "0.0.0.0", "gateway", 1)
	if c := prometheus.ScrapeConfigs; len(c) != 1 || len(c[0].StaticConfigs) != 1 || !slices.Equal(c[0].StaticConfigs[0].Targets, []string{target}) {
		t.Errorf("Prometheus scrapes %+v, want %s", c, target)
	}

	var sources struct {
		APIVersion  int `json:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool
			JSONData                     struct {
				ExemplarTraceIDDestinations []struct{ Name, DatasourceUID string } `json:"exemplarTraceIdDestinations"`
			} `json:"jsonData"`
		} `json:"datasources"`
	}
	decode(t, readFile(t, mountedAt(t, project, "grafana", "/etc/grafana/provisioning/datasources/prometheus.yaml")), &sources)
	if len(sources.Datasources) != 1 || sources.Datasources[0].URL != "http://prometheus:9090" || !sources.Datasources[0].IsDefault {
		t.Errorf("Grafana's sources are %+v", sources.Datasources)
	} else if d := sources.Datasources[0].JSONData.ExemplarTraceIDDestinations; len(d) != 1 || d[0].Name != "trace_id" || d[0].DatasourceUID == "" {
		t.Errorf("exemplars lead to %+v, want the traces of trace_id", d)
	}
	var boards struct {
		APIVersion int `json:"apiVersion"`
		Providers  []struct {
			Name, Type      string
			DisableDeletion bool
			Options         struct{ Path string }
		} `json:"providers"`
	}
	decode(t, readFile(t, mountedAt(t, project, "grafana", "/etc/grafana/provisioning/dashboards/mcp-gateway.yaml")), &boards)
	file := ""
	if len(boards.Providers) == 1 {
		file = mountedAt(t, project, "grafana", boards.Providers[0].Options.Path+"/mcp-gateway.json")
	}
	var d dashboard
	if err := json.Unmarshal(readFile(t, file), &d); err != nil || d.UID == "" || d.Title == "" {
		t.Errorf("Grafana finds no dashboard in %s: %v", file, err)
	}
	if home := *project.Services["grafana"].Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]; mountedAt(t, project, "grafana", home) != file {
		t.Errorf("Grafana's home is %s", home)
	}
}

// decode decodes YAML strictly.
func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatal(err)
	}
}

// mountedAt returns the file of the repository that is mounted at a path of a
// container.
func mountedAt(t *testing.T, project *types.Project, service, path string) string {
	t.Helper()
	for _, v := range project.Services[service].Volumes {
		if v.Type != types.VolumeTypeBind {
			continue
		}
		if path == v.Target {
			return v.Source
		}
		if rest, ok := strings.CutPrefix(path, v.Target+"/"); ok {
			return filepath.Join(v.Source, rest)
		}
	}
	t.Fatalf("nothing is mounted at %s in %s", path, service)
	return ""
}
