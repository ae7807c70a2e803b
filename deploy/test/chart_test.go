package deploy

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// chartDir is the folder of the chart in the repository.
const chartDir = "deploy/helm/mcp-gateway"

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(filepath.Join(repository(), chartDir))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// render renders the chart as `helm install` does: strictly and with the schema.
// The error is the message that a user would read.
func render(t *testing.T, release, values string) (objects []object, notes string, err error) {
	t.Helper()
	c := loadChart(t)
	var given map[string]any
	if err := yaml.UnmarshalStrict([]byte(values), &given); err != nil {
		t.Fatalf("values: %v", err)
	}
	merged, err := util.ToRenderValues(c, given, common.ReleaseOptions{Name: release, Namespace: "tools", Revision: 1, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, "", err
	}
	files, err := engine.Engine{Strict: true}.RenderWithContext(t.Context(), c, merged)
	if err != nil {
		return nil, "", err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, "NOTES.txt") {
			notes = files[name]
			continue
		}
		objects = append(objects, decodeAll(t, name, files[name])...)
	}
	return objects, notes, nil
}

func mustRender(t *testing.T, release, values string) *release {
	t.Helper()
	objects, notes, err := render(t, release, values)
	if err != nil {
		t.Fatalf("the chart does not render: %v", err)
	}
	return newRelease(t, objects, notes)
}

// minimal has the values that a user must set.
const minimal = `
config:
  auth: {insecure: true}
  upstreams: {search: {url: "http://search.tools.svc:8000/mcp"}}
`

// everything turns on the parts that no values file turns on, and writes values
// that have defaults in another form.
const everything = `
fullnameOverride: gw
commonLabels: {team: tools}
image: {repository: registry.example.com/mcpgateway, digest: "sha256:` + sixtyFour + `"}
imagePullSecrets: [{name: registry}]
config:
  listen: "[::]:18080"
  admin: {listen: "0.0.0.0:19090"}
  drain_timeout: 1m30.5s
  auth: {insecure: true}
  limits: {max_sessions: 10000000}
  upstreams:
    plain: {url: "http://plain.example.com/mcp"}
    tls: {url: "https://[2001:db8::1]/mcp"}
    ported: {url: "https://ported.example.com:8443/mcp?x=:99"}
    own: {url: "http://127.0.0.1:7000/mcp"}
    editors: {serverUrl: "http://editors.example.com:8081/mcp"}
    tickets:
      url: "https://tickets.example.com/mcp"
      auth: {kind: client-credentials, issuer: "https://login.example.com:9443", client_id: gateway, client_secret: x}
env: [{name: LOG, value: info}]
envFrom: [{secretRef: {name: all}}]
secretFiles: [{secret: s, key: k}]
replicas: 4
service: {type: LoadBalancer, port: 443, sessionAffinity: "", annotations: {a: b}}
ingress: {enabled: true, host: mcp.example.com, affinity: cookie, annotations: {nginx.ingress.kubernetes.io/proxy-read-timeout: "60"}}
httpRoute:
  enabled: true
  parentRefs: [{name: public, namespace: gateways, sectionName: https}]
  hostnames: [mcp.example.com]
  sessionPersistence: {type: Cookie, sessionName: mcp}
metrics:
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
  prometheusRule: {enabled: true}
  dashboard: {enabled: true}
networkPolicy:
  clients: []
  egress: {ports: [9000], to: [{ipBlock: {cidr: 10.0.0.0/8}}]}
serviceAccount: {annotations: {a: b}}
podAnnotations: {a: b}
podLabels: {a: b}
priorityClassName: high
nodeSelector: {a: b}
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {}}
preStopSeconds: 12
extraContainers: [{name: own, image: own:1, ports: [{name: own, containerPort: 7000}], volumeMounts: [{name: own, mountPath: /own}], securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}}]
extraVolumes: [{name: own, emptyDir: {}}]
extraVolumeMounts: [{name: own, mountPath: /own}]
`

// trialStore completes minimal with the store of a trial.
const trialStore = `
  bridge: {keys: ["` + sixtyFour + `"]}
redis: {enabled: true}
ingress: {enabled: true, host: mcp.example.com}
`

const sixtyFour = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestChart renders the chart with every values file, with the minimal values and
// with all values. It checks the objects against one another and against the
// gateway.
func TestChart(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(repository(), chartDir, "values-*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 3 {
		t.Fatalf("values files %v: want one for a laptop, for a sidecar and for OAuth", files)
	}
	cases := map[string]string{"minimal": minimal, "everything": everything, "store": minimal + trialStore}
	for _, file := range files {
		cases[filepath.Base(file)] = string(readFile(t, file))
	}
	for name, values := range cases {
		t.Run(name, func(t *testing.T) {
			r := mustRender(t, "gateway", values)
			r.checkNames()
			r.checkLabels()
			r.checkPod()
			r.checkServices()
			r.checkStore()
			r.checkRoutes()
			r.checkNetworkPolicy()
			r.checkScale()
			r.checkMonitoring()
			r.checkGateway()
		})
	}
}

// TestChartRefuses renders wrong values, each with a part of the expected error.
func TestChartRefuses(t *testing.T) {
	for name, c := range map[string]struct{ values, want string }{
		"nothing":                 {"", "config.upstreams is empty"},
		"open to everyone":        {`config: {upstreams: {a: {url: "http://a/mcp"}}}`, "config.auth: everyone who can reach the pod could call"},
		"unknown":                 {minimal + "replica: 2", "replica"},
		"unknown, deep":           {minimal + "service: {portt: 2}", "portt"},
		"wrong type":              {minimal + `replicas: "2"`, "replicas"},
		"wrong port":              {minimal + "service: {port: 70000}", "port"},
		"secret's file elsewhere": {minimal + "secretFiles: [{secret: s, key: k, file: ../x}]", "file"},
		"calls cut off":           {minimal + "terminationGracePeriodSeconds: 20", "calls would be cut off"},
		"no unit":                 {strings.Replace(minimal, "config:", "config:\n  drain_timeout: \"20\"", 1), `drain_timeout "20" is no duration`},
		"one port":                {strings.Replace(minimal, "config:", "config:\n  listen: 0.0.0.0:9090", 1), "have the same port"},
		"probes cannot reach":     {strings.Replace(minimal, "config:", "config:\n  admin: {listen: 127.0.0.1:9090}", 1), "config.admin.listen is loopback"},
		"ingress without host":    {minimal + "ingress: {enabled: true}", "ingress.host is empty"},
		"route without gateway":   {minimal + "httpRoute: {enabled: true}", "httpRoute.parentRefs is empty"},
		"host with a scheme":      {minimal + "ingress: {enabled: true, host: \"https://mcp.example.com\"}", "host"},
		"route with a path":       {minimal + "httpRoute: {enabled: true, parentRefs: [{name: x}], hostnames: [mcp.example.com/mcp]}", "hostnames"},
		"invalid Service name":    {minimal + "fullnameOverride: My_Gateway", "fullnameOverride"},
		"minimum over maximum":    {minimal + "autoscaling: {enabled: true, minReplicas: 7}", "autoscaling.minReplicas is larger"},
		"utilization, no request": {minimal + "autoscaling: {enabled: true}\nresources: {requests: {cpu: null}}", "resources.requests.cpu, which is not set"},
		"store, no keys":          {minimal + "redis: {enabled: true}", "config.bridge.keys is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := render(t, "gateway", c.values); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestChartNames checks names that are derived from the name of the release.
func TestChartNames(t *testing.T) {
	for release, want := range map[string]string{
		"gateway":               "gateway-mcp-gateway",
		"mcp-gateway":           "mcp-gateway",
		strings.Repeat("r", 53): strings.Repeat("r", 52),
	} {
		if got := mustRender(t, release, minimal).deployment.Name; got != want {
			t.Errorf("release %s: the deployment is %s, want %s", release, got, want)
		}
	}
}

// TestChartRollsOnChange checks that a changed configuration replaces the pods and
// that another changed value does not.
func TestChartRollsOnChange(t *testing.T) {
	sum := func(values string) string {
		return mustRender(t, "gateway", values).deployment.Spec.Template.Annotations["checksum/config"]
	}
	same, other := sum(minimal+"service: {port: 81}"), sum(strings.Replace(minimal, ":8000/", ":8001/", 1))
	if first := sum(minimal); first == "" || first != same || first == other {
		t.Errorf("checksums: %q, with another service port %q, with another upstream %q", first, same, other)
	}
}

// TestChartNotes checks that the notes after an installation fit its values.
func TestChartNotes(t *testing.T) {
	for name, c := range map[string]struct {
		values    string
		has, lack []string
	}{
		"minimal": {minimal, []string{"http://gateway-mcp-gateway.tools.svc:80/mcp", "Clients need not authenticate", "config.bridge.keys"}, []string{"the network policy is off", "sessionAffinity", "lets in only the pods"}},
		"outside": {minimal + "ingress: {enabled: true, host: mcp.example.com}", []string{"lets in only the pods of this namespace"}, nil},
		"laptop":  {string(read(t, chartDir, "values-laptop.yaml")), []string{"port-forward service/gateway-mcp-gateway 8080:80"}, []string{"config.bridge.keys"}},
		"oauth":   {string(read(t, chartDir, "values-oauth.yaml")), []string{"https://mcp.example.com/mcp"}, []string{"need not authenticate", "config.bridge.keys", "lets in only the pods"}},
		"store":   {minimal + trialStore, []string{"gateway-mcp-gateway-redis is for a trial"}, []string{"config.bridge.keys", "sessionAffinity"}},
		"alone":   {minimal + "networkPolicy: {enabled: false}\nservice: {sessionAffinity: \"\"}", []string{"and the network policy is off", "set service.sessionAffinity to ClientIP"}, nil},
	} {
		_, notes, err := render(t, "gateway", c.values)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, text := range c.has {
			if !strings.Contains(notes, text) {
				t.Errorf("%s: the notes lack %q:\n%s", name, text, notes)
			}
		}
		for _, text := range c.lack {
			if strings.Contains(notes, text) {
				t.Errorf("%s: the notes have %q:\n%s", name, text, notes)
			}
		}
	}
}

// TestExistingConfigMap checks that the pod mounts the user's ConfigMap and that
// the chart creates none.
func TestExistingConfigMap(t *testing.T) {
	objects, _, err := render(t, "gateway", "existingConfigMap: mine")
	if err != nil {
		t.Fatal(err)
	}
	mounted := ""
	for _, o := range objects {
		if o.kind() == "ConfigMap" {
			t.Errorf("the chart creates the ConfigMap %s", o.meta().GetName())
		}
		if d := deploymentOf(o); d != nil {
			for _, v := range d.Spec.Template.Spec.Volumes {
				if v.ConfigMap != nil {
					mounted = v.ConfigMap.Name
				}
			}
		}
	}
	if mounted != "mine" {
		t.Errorf("the pod mounts the ConfigMap %q, want mine", mounted)
	}
}

// TestChartHosts checks that without authentication clients may use the names of
// the Service and of the routes, unless the values name other hosts.
func TestChartHosts(t *testing.T) {
	hosts := func(values string) []string {
		var config struct {
			AllowedHosts []string `json:"allowed_hosts"`
		}
		if err := yaml.Unmarshal([]byte(mustRender(t, "gateway", values).config.Data["gateway.yaml"]), &config); err != nil {
			t.Fatal(err)
		}
		return config.AllowedHosts
	}
	service := []string{"gateway-mcp-gateway", "gateway-mcp-gateway.tools", "gateway-mcp-gateway.tools.svc", "gateway-mcp-gateway.tools.svc.cluster.local"}
	if got := hosts(minimal); !slices.Equal(got, service) {
		t.Errorf("allowed_hosts %v, want %v", got, service)
	}
	routed := minimal + "ingress: {enabled: true, host: mcp.example.com}\n"
	if got, want := hosts(routed), append(service, "mcp.example.com"); !slices.Equal(got, want) {
		t.Errorf("with an ingress allowed_hosts %v, want %v", got, want)
	}
	named := strings.Replace(minimal, "config:", "config:\n  allowed_hosts: [mine]", 1)
	if got := hosts(named); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("with allowed_hosts in the values: allowed_hosts %v", got)
	}
}

// TestChartEgress checks that the network policy lets the gateway reach what config names.
func TestChartEgress(t *testing.T) {
	r := mustRender(t, "gateway", `
config:
  auth:
    mode: jwt
    jwt:
      - {issuer: "https://idp.example.com", audience: a, jwks: "https://keys.example.com:8444/jwks", discovery: "https://meta.example.com:8445/openid"}
  mcpServers:
    search: {url: "http://search:8001/mcp"}
    many: {urls: ["http://a:8002/mcp", "http://b:8003/mcp"]}
  bridge: {keys: ["`+sixtyFour+`"]}
  store: {kind: redis, url: "rediss://:secret@redis.example.com:6390/0"}
`)
	var ports []int
	for _, rule := range find[*networking.NetworkPolicy](r)[0].Spec.Egress {
		for _, p := range rule.Ports {
			ports = append(ports, p.Port.IntValue())
		}
	}
	slices.Sort(ports)
	if got, want := slices.Compact(ports), []int{53, 443, 6390, 8001, 8002, 8003, 8444, 8445}; !slices.Equal(got, want) {
		t.Errorf("egress to %v, want %v", got, want)
	}
}

// TestChartTLS checks that all parts know that the gateway serves TLS.
func TestChartTLS(t *testing.T) {
	values := strings.Replace(minimal, "config:", "config:\n  tls: {cert: /run/secrets/mcpgateway/cert, key: /run/secrets/mcpgateway/key}", 1) +
		"ingress: {enabled: true, host: mcp.example.com}\nhttpRoute: {enabled: true, parentRefs: [{name: x}]}\n"
	for values, want := range map[string]string{values: "https", minimal + "ingress: {enabled: true, host: mcp.example.com}\n": "http"} {
		objects, notes, err := render(t, "gateway", values)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if s, ok := o.Object.(*core.Service); ok && s.Spec.Ports[0].Name == "mcp" && *s.Spec.Ports[0].AppProtocol != want {
				t.Errorf("the Service says %s, want %s", *s.Spec.Ports[0].AppProtocol, want)
			}
			if i, ok := o.Object.(*networking.Ingress); ok && (i.Annotations["nginx.ingress.kubernetes.io/backend-protocol"] == "HTTPS") != (want == "https") {
				t.Errorf("%s: the ingress has %v", want, i.Annotations)
			}
		}
		if !strings.Contains(notes, `"url": "`+want+`://127.0.0.1:8080/mcp"`) || strings.Contains(notes, "BackendTLSPolicy") != (want == "https") {
			t.Errorf("%s: the notes are\n%s", want, notes)
		}
	}
	if _, notes, _ := render(t, "gateway", strings.Replace(values, "ingress: {enabled: true, host: mcp.example.com}", "", 1)); !strings.Contains(notes, "https://gateway-mcp-gateway.tools.svc:80/mcp") {
		t.Errorf("without an ingress the notes are\n%s", notes)
	}
}

// TestChartPersistence checks that state_dir is on the volume, with a claim of the chart and with an existing one.
func TestChartPersistence(t *testing.T) {
	const one = minimal + "replicas: 1\n"
	for name, c := range map[string]struct{ values, claim, dir, strategy string }{
		"one replica":      {one + "persistence: {enabled: true}", "gateway-mcp-gateway-state", "/var/lib/mcpgateway-state", "Recreate"},
		"a claim":          {one + "persistence: {enabled: true, existingClaim: mine}", "mine", "/var/lib/mcpgateway-state", "Recreate"},
		"several replicas": {minimal + "persistence: {enabled: true, accessModes: [ReadWriteMany]}", "gateway-mcp-gateway-state", "/var/lib/mcpgateway-state", "RollingUpdate"},
		"a folder":         {strings.Replace(one, "config:", "config:\n  state_dir: /state", 1) + "persistence: {enabled: true}", "gateway-mcp-gateway-state", "/state", "Recreate"},
	} {
		r := mustRender(t, "gateway", c.values)
		if !strings.Contains(r.config.Data["gateway.yaml"], "state_dir: "+c.dir+"\n") {
			t.Errorf("%s: the configuration is\n%s", name, r.config.Data["gateway.yaml"])
		}
		claims := find[*core.PersistentVolumeClaim](r)
		if made := len(claims) == 1 && claims[0].Name == c.claim; made == (c.claim == "mine") {
			t.Errorf("%s: claims %v", name, claims)
		}
		pod := r.pod()
		mounted := slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m core.VolumeMount) bool { return m.Name == "state" && m.MountPath == c.dir })
		bound := slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool {
			return v.Name == "state" && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == c.claim
		})
		if !mounted || !bound || string(r.deployment.Spec.Strategy.Type) != c.strategy {
			t.Errorf("%s: mounted %t, bound %t, strategy %s", name, mounted, bound, r.deployment.Spec.Strategy.Type)
		}
	}
	if _, _, err := render(t, "gateway", minimal+"persistence: {enabled: true}"); err == nil || !strings.Contains(err.Error(), "persistence.accessModes lacks ReadWriteMany") {
		t.Errorf("several replicas with a volume for one: %v", err)
	}
}
