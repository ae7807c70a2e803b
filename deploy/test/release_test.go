package deploy

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// release is the output of the chart, sorted for the checks.
type release struct {
	t          *testing.T
	objects    []object
	notes      string
	deployment *apps.Deployment
	services   map[string]*core.Service // by name
	config     *core.ConfigMap          // contains gateway.yaml
	store      []object                 // the Redis of a trial
}

func newRelease(t *testing.T, objects []object, notes string) *release {
	t.Helper()
	r := &release{t: t, notes: notes, services: map[string]*core.Service{}}
	for _, o := range objects {
		if o.meta().GetLabels()["app.kubernetes.io/component"] == "store" {
			r.store = append(r.store, o)
			continue
		}
		r.objects = append(r.objects, o)
		switch o := o.Object.(type) {
		case *apps.Deployment:
			r.deployment = o
		case *core.Service:
			r.services[o.Name] = o
		case *core.ConfigMap:
			if _, ok := o.Data["gateway.yaml"]; ok {
				r.config = o
			}
		}
	}
	if r.deployment == nil || r.config == nil {
		t.Fatal("no Deployment, or no ConfigMap with a gateway.yaml")
	}
	return r
}

// find returns the objects of one type.
func find[T any](r *release) []T {
	var found []T
	for _, o := range r.objects {
		if o, ok := o.Object.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// pod returns the pod template of the Deployment.
func (r *release) pod() core.PodSpec { return r.deployment.Spec.Template.Spec }

func (r *release) gateway() core.Container {
	for _, c := range r.pod().Containers {
		if c.Name == "gateway" {
			return c
		}
	}
	r.t.Fatal("no container gateway")
	return core.Container{}
}

// port returns the number of the gateway's port of this name.
func (r *release) port(name string) int {
	r.t.Helper()
	for _, p := range r.gateway().Ports {
		if p.Name == name {
			return int(p.ContainerPort)
		}
	}
	r.t.Fatalf("the gateway has no port %s", name)
	return 0
}

func (r *release) checkNames() {
	seen := map[string]bool{}
	for _, o := range slices.Concat(r.objects, r.store) {
		name := o.meta().GetName()
		id := o.kind() + "/" + name
		if seen[id] {
			r.t.Errorf("two objects are %s", id)
		}
		seen[id] = true
		for _, problem := range validation.IsDNS1035Label(name) {
			r.t.Errorf("%s: %s", id, problem)
		}
		if ns := o.meta().GetNamespace(); ns != "" {
			r.t.Errorf("%s names the namespace %s, which the release must decide", id, ns)
		}
	}
}

// checkLabels checks that labels are valid, and that every selector of pods selects
// the gateway's pods by labels that never change.
func (r *release) checkLabels() {
	pod := r.deployment.Spec.Template.Labels
	for _, o := range r.objects {
		for key, value := range o.meta().GetLabels() {
			for _, problem := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
				r.t.Errorf("%s: label %s=%s: %s", o.kind(), key, value, problem)
			}
		}
	}
	selects := func(what string, selector map[string]string) {
		want := map[string]string{"app.kubernetes.io/name": pod["app.kubernetes.io/name"], "app.kubernetes.io/instance": "gateway"}
		if !maps.Equal(selector, want) || !includes(pod, selector) {
			r.t.Errorf("%s selects %v, want %v of the pod's labels %v", what, selector, want, pod)
		}
	}
	selects("the Deployment", r.deployment.Spec.Selector.MatchLabels)
	for name, s := range r.services {
		selects("Service "+name, s.Spec.Selector)
	}
	for _, p := range find[*policy.PodDisruptionBudget](r) {
		selects("the PodDisruptionBudget", p.Spec.Selector.MatchLabels)
	}
	for _, p := range find[*networking.NetworkPolicy](r) {
		selects("the NetworkPolicy", p.Spec.PodSelector.MatchLabels)
	}
	for _, c := range r.pod().TopologySpreadConstraints {
		selects("topology spread over "+c.TopologyKey, c.LabelSelector.MatchLabels)
	}
}

func includes(all, some map[string]string) bool {
	for key, value := range some {
		if all[key] != value {
			return false
		}
	}
	return true
}

// checkPod checks the pod security standard, that no token is mounted, the probes,
// the volumes, and that the grace period covers the drain.
func (r *release) checkPod() {
	pod, gateway := r.pod(), r.gateway()
	checkRestricted(r.t, pod)
	checkVolumes(r.t, pod)
	account := find[*core.ServiceAccount](r)
	if len(account) != 1 || account[0].Name != pod.ServiceAccountName || account[0].AutomountServiceAccountToken == nil || *account[0].AutomountServiceAccountToken {
		r.t.Errorf("the pod's account %s is not the chart's, or mounts a token: %+v", pod.ServiceAccountName, account)
	}
	for what, c := range map[string]struct {
		probe *core.Probe
		path  string
	}{"startup": {gateway.StartupProbe, "/healthz"}, "readiness": {gateway.ReadinessProbe, "/readyz"}, "liveness": {gateway.LivenessProbe, "/healthz"}} {
		if c.probe == nil || c.probe.HTTPGet == nil || c.probe.HTTPGet.Path != c.path || c.probe.HTTPGet.Port != intstr.FromString("admin") {
			r.t.Errorf("the %s probe is %+v, want %s at the port admin", what, c.probe, c.path)
		}
	}
	var config struct {
		Drain string `json:"drain_timeout"`
	}
	if err := yaml.Unmarshal([]byte(r.config.Data["gateway.yaml"]), &config); err != nil {
		r.t.Fatal(err)
	}
	drain, err := time.ParseDuration(config.Drain)
	if err != nil {
		r.t.Fatal(err)
	}
	if gateway.Lifecycle == nil || gateway.Lifecycle.PreStop == nil || gateway.Lifecycle.PreStop.Sleep == nil {
		r.t.Fatal("no preStop that sleeps")
	}
	sleep := time.Duration(gateway.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	if need := sleep + drain + 5*time.Second; grace < need || grace > need+10*time.Second {
		r.t.Errorf("the grace period is %v, with preStop %v and drain_timeout %v", grace, sleep, drain)
	}
}

// checkRestricted checks a pod against the pod security standard "restricted" and
// against stricter rules: a read-only root, no token, bounded memory.
func checkRestricted(t *testing.T, pod core.PodSpec) {
	t.Helper()
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("the pod mounts a token")
	}
	if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 ||
		s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod may run as root, or without seccomp: %+v", s)
	}
	for _, c := range append(slices.Clone(pod.InitContainers), pod.Containers...) {
		s := c.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
			s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 || s.Privileged != nil && *s.Privileged {
			t.Errorf("the container %s is not restricted: %+v", c.Name, s)
		}
	}
	for _, c := range pod.InitContainers {
		if c.RestartPolicy == nil || *c.RestartPolicy != core.ContainerRestartPolicyAlways {
			t.Errorf("the init container %s does not keep running", c.Name)
		}
	}
}

// checkVolumes checks that every mount has a volume, that names are unique, and
// that no two containers of the pod use one port.
func checkVolumes(t *testing.T, pod core.PodSpec) {
	t.Helper()
	volumes, used, ports := map[string]bool{}, map[string]bool{}, map[int32]string{}
	for _, v := range pod.Volumes {
		if volumes[v.Name] {
			t.Errorf("two volumes are %s", v.Name)
		}
		volumes[v.Name] = true
	}
	names := map[string]bool{}
	for _, c := range append(slices.Clone(pod.InitContainers), pod.Containers...) {
		if names[c.Name] {
			t.Errorf("two containers are %s", c.Name)
		}
		names[c.Name] = true
		paths := map[string]bool{}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] || paths[m.MountPath] {
				t.Errorf("%s mounts %s at %s: no such volume, or the path is taken", c.Name, m.Name, m.MountPath)
			}
			paths[m.MountPath], used[m.Name] = true, true
		}
		for _, p := range c.Ports {
			if other := ports[p.ContainerPort]; other != "" {
				t.Errorf("%s and %s have the port %d", other, c.Name, p.ContainerPort)
			}
			ports[p.ContainerPort] = c.Name
		}
	}
	for name := range volumes {
		if !used[name] {
			t.Errorf("no container mounts the volume %s", name)
		}
	}
}

func (r *release) checkServices() {
	mcp, metrics := r.services[r.deployment.Name], r.services[r.deployment.Name+"-metrics"]
	if mcp == nil || metrics == nil {
		r.t.Fatalf("services %v, want one for MCP and one for metrics", slices.Collect(maps.Keys(r.services)))
	}
	for s, port := range map[*core.Service]string{mcp: "mcp", metrics: "admin"} {
		if len(s.Spec.Ports) != 1 || s.Spec.Ports[0].TargetPort != intstr.FromString(port) || s.Spec.Ports[0].Name != port {
			r.t.Errorf("Service %s has the ports %+v, want %s alone", s.Name, s.Spec.Ports, port)
		}
	}
	if metrics.Spec.ClusterIP != core.ClusterIPNone {
		r.t.Error("the metrics Service is not headless: Prometheus cannot tell the replicas apart")
	}
	if a := mcp.Spec.SessionAffinity; a != "" && (a != core.ServiceAffinityClientIP || mcp.Spec.SessionAffinityConfig.ClientIP.TimeoutSeconds == nil) {
		r.t.Errorf("session affinity %+v", mcp.Spec)
	}
}

// checkStore checks that the Redis of a trial has a Service, and that only the gateway reaches it.
func (r *release) checkStore() {
	if len(r.store) == 0 {
		return
	}
	store := &release{objects: r.store}
	deployments, services, policies := find[*apps.Deployment](store), find[*core.Service](store), find[*networking.NetworkPolicy](store)
	if len(deployments) != 1 || len(services) != 1 || len(policies) != 1 {
		r.t.Fatalf("the store has %d Deployments, %d Services, %d NetworkPolicies, want one of each", len(deployments), len(services), len(policies))
	}
	pod := deployments[0].Spec.Template
	for what, selector := range map[string]map[string]string{
		"the Deployment": deployments[0].Spec.Selector.MatchLabels, "the Service": services[0].Spec.Selector, "the NetworkPolicy": policies[0].Spec.PodSelector.MatchLabels,
	} {
		if !includes(pod.Labels, selector) || includes(r.deployment.Spec.Template.Labels, selector) {
			r.t.Errorf("%s of the store selects %v, the store has %v", what, selector, pod.Labels)
		}
	}
	if from := policies[0].Spec.Ingress; len(from) != 1 || len(from[0].From) != 1 || !includes(r.deployment.Spec.Template.Labels, from[0].From[0].PodSelector.MatchLabels) {
		r.t.Errorf("the store admits %+v, want the gateway alone", from)
	}
	if url := "redis://" + services[0].Name + ":6379"; !strings.Contains(r.config.Data["gateway.yaml"], url) {
		r.t.Errorf("gateway.yaml does not name %s", url)
	}
	if c := pod.Spec.Containers[0]; c.SecurityContext == nil || !*c.SecurityContext.ReadOnlyRootFilesystem || !*pod.Spec.SecurityContext.RunAsNonRoot {
		r.t.Errorf("the store's container is not restricted: %+v", c.SecurityContext)
	}
}

// checkRoutes checks that routes lead to the port of the Service, and that they
// neither cut nor buffer event streams.
func (r *release) checkRoutes() {
	mcp := r.services[r.deployment.Name]
	for _, i := range find[*networking.Ingress](r) {
		for _, rule := range i.Spec.Rules {
			for _, p := range rule.HTTP.Paths {
				if s := p.Backend.Service; s.Name != mcp.Name || s.Port.Name != mcp.Spec.Ports[0].Name {
					r.t.Errorf("the Ingress leads to %+v", s)
				}
			}
		}
		if a := i.Annotations; a["nginx.ingress.kubernetes.io/proxy-buffering"] != "off" || a["nginx.ingress.kubernetes.io/proxy-read-timeout"] == "" {
			r.t.Errorf("the Ingress buffers or cuts event streams: %v", a)
		}
		shared := strings.Contains(r.config.Data["gateway.yaml"], "kind: redis")
		if a := i.Annotations; shared != (a["nginx.ingress.kubernetes.io/upstream-hash-by"] == "" && a["nginx.ingress.kubernetes.io/affinity"] == "") {
			r.t.Errorf("the Ingress sends one client to several replicas without a store, or to one with a store: %v", a)
		}
	}
	for _, route := range find[*gatewayapi.HTTPRoute](r) {
		for _, rule := range route.Spec.Rules {
			if len(rule.BackendRefs) != 1 || string(rule.BackendRefs[0].Name) != mcp.Name || rule.BackendRefs[0].Port == nil || *rule.BackendRefs[0].Port != mcp.Spec.Ports[0].Port {
				r.t.Errorf("the HTTPRoute leads to %+v", rule.BackendRefs)
			}
			if rule.Timeouts == nil || rule.Timeouts.Request == nil || *rule.Timeouts.Request != "0s" || *rule.Timeouts.BackendRequest != "0s" {
				r.t.Errorf("the HTTPRoute cuts event streams: %+v", rule.Timeouts)
			}
			if rule.Retry != nil {
				r.t.Errorf("the HTTPRoute retries calls: %+v", rule.Retry)
			}
		}
	}
}

// checkNetworkPolicy checks that the policy admits traffic to MCP and admin only,
// and lets the gateway out to DNS and to the hosts of the configuration.
func (r *release) checkNetworkPolicy() {
	policies := find[*networking.NetworkPolicy](r)
	if len(policies) != 1 {
		r.t.Fatalf("%d NetworkPolicies, want 1", len(policies))
	}
	p := policies[0]
	for _, rule := range p.Spec.Ingress {
		if len(rule.From) == 0 {
			r.t.Errorf("a rule admits every source: %+v", rule)
		}
		if len(rule.Ports) != 1 || !slices.Contains([]string{"mcp", "admin"}, rule.Ports[0].Port.StrVal) {
			r.t.Errorf("a rule admits traffic to %+v, want one named port of the gateway", rule.Ports)
		}
	}
	var got []int
	for _, rule := range p.Spec.Egress {
		for _, port := range rule.Ports {
			got = append(got, int(port.Port.IntVal))
		}
	}
	want := map[int]bool{53: true}
	for _, m := range regexp.MustCompile(`(?m)(?:[uU]rl|issuer): (https?|rediss?)://(?:[^@/]*@)?(\[[^]]*\]|[^/:\s]+)(?::(\d+))?`).FindAllStringSubmatch(r.config.Data["gateway.yaml"], -1) {
		if m[2] == "127.0.0.1" {
			continue
		}
		port := map[string]int{"http": 80, "https": 443, "redis": 6379, "rediss": 6379}[m[1]]
		if m[3] != "" {
			port, _ = strconv.Atoi(m[3]) // digits
		}
		want[port] = true
	}
	if strings.Contains(r.config.Data["gateway.yaml"], "command:") || len(r.pod().InitContainers) > 0 {
		want[443] = true // package registries
	}
	if r.deployment.Name == "gw" {
		want[9000] = true // from the values
	}
	slices.Sort(got)
	if !slices.Equal(slices.Compact(got), slices.Sorted(maps.Keys(want))) {
		r.t.Errorf("the policy allows egress to the ports %v, want %v", got, slices.Sorted(maps.Keys(want)))
	}
}

func (r *release) checkScale() {
	scalers := find[*autoscaling.HorizontalPodAutoscaler](r)
	if (len(scalers) == 1) != (r.deployment.Spec.Replicas == nil) {
		r.t.Errorf("%d autoscalers, but the Deployment has replicas %v: exactly one of them must decide", len(scalers), r.deployment.Spec.Replicas)
	}
	for _, s := range scalers {
		if ref := s.Spec.ScaleTargetRef; ref.Kind != "Deployment" || ref.APIVersion != "apps/v1" || ref.Name != r.deployment.Name {
			r.t.Errorf("the autoscaler scales %+v", ref)
		}
		if c := s.Spec.Metrics[0].ContainerResource; c == nil || c.Container != r.gateway().Name {
			r.t.Errorf("the autoscaler uses %+v", s.Spec.Metrics)
		} else if _, ok := r.gateway().Resources.Requests[c.Name]; !ok {
			r.t.Errorf("the autoscaler uses the utilization of %s, which the gateway does not request", c.Name)
		}
	}
	several := len(scalers) == 1 || *r.deployment.Spec.Replicas > 1
	if budgets := find[*policy.PodDisruptionBudget](r); (len(budgets) == 1) != several {
		r.t.Errorf("%d PodDisruptionBudgets, several replicas: %t", len(budgets), several)
	}
}

func (r *release) checkMonitoring() {
	metrics := r.services[r.deployment.Name+"-metrics"]
	for _, m := range find[*monitoring.ServiceMonitor](r) {
		if !includes(metrics.Labels, m.Spec.Selector.MatchLabels) || includes(r.services[r.deployment.Name].Labels, m.Spec.Selector.MatchLabels) {
			r.t.Errorf("the ServiceMonitor selects %v, want the metrics Service only: %v", m.Spec.Selector.MatchLabels, metrics.Labels)
		}
		if len(m.Spec.Endpoints) != 1 || m.Spec.Endpoints[0].Port != metrics.Spec.Ports[0].Name {
			r.t.Errorf("the ServiceMonitor scrapes %+v", m.Spec.Endpoints)
		}
	}
	for _, rule := range find[*monitoring.PrometheusRule](r) {
		var want monitoring.PrometheusRuleSpec
		if err := yaml.UnmarshalStrict(read(r.t, ruleFiles(r.t)[0]), &want); err != nil {
			r.t.Fatal(err)
		}
		if !reflect.DeepEqual(rule.Spec, want) || len(want.Groups) == 0 {
			r.t.Error("the alerts of the PrometheusRule differ from deploy/prometheus")
		}
	}
	for _, m := range find[*core.ConfigMap](r) {
		if text, ok := m.Data["mcp-gateway.json"]; ok && strings.TrimSpace(text) != strings.TrimSpace(string(read(r.t, "deploy/grafana/dashboards/mcp-gateway.json"))) {
			r.t.Error("the dashboard of the ConfigMap differs from deploy/grafana")
		}
	}
}

// checkGateway runs the gateway as the pod would: with the configuration of the
// ConfigMap and the files and variables of the Secrets. It sends requests to the
// ports of the Deployment. The programs of stdio upstreams are not installed.
func (r *release) checkGateway() {
	mounted := map[string]string{}
	for _, m := range r.gateway().VolumeMounts {
		mounted[m.Name] = m.MountPath
	}
	env := []string{"PATH=/nowhere"}
	for _, e := range r.gateway().Env {
		env = append(env, e.Name+"=value")
	}
	for _, v := range r.pod().Volumes {
		switch {
		case v.ConfigMap != nil && v.ConfigMap.Name == r.config.Name:
			if file := r.gateway().Args; !slices.Equal(file, []string{"run", "-c", mounted[v.Name] + "/gateway.yaml"}) {
				r.t.Errorf("the ConfigMap is mounted at %s, but the gateway reads %v", mounted[v.Name], file)
			}
		case v.Projected != nil:
			for _, source := range v.Projected.Sources {
				for _, item := range source.Secret.Items {
					write(r.t, mounted[v.Name]+"/"+item.Path, strings.Repeat("00", 32))
				}
			}
		}
	}
	file := filepath.Join(r.t.TempDir(), "gateway.yaml")
	write(r.t, file, r.config.Data["gateway.yaml"])
	if out, err := gateway(r.t, env, "check", "--offline", "-c", file).CombinedOutput(); err != nil {
		r.t.Errorf("gateway check --offline: %v\n%s", err, out)
	}
	p := serveConfig(r.t, r.config.Data["gateway.yaml"], r.port("admin"), env...)
	mcp := fmt.Sprintf("http://127.0.0.1:%d/mcp", r.port("mcp"))
	if got := status(mcp); got == 0 || got == http.StatusNotFound {
		r.t.Errorf("GET %s: status %d: the port mcp does not serve MCP", mcp, got)
	}
	p.stop()
	if remark := regexp.MustCompile(`gateway\.yaml:\d+:\d+: [^"]*`).FindString(p.out.String()); remark != "" && (r.store == nil || !strings.Contains(remark, "write rediss")) {
		r.t.Errorf("the gateway logs a problem of its configuration: %s", remark)
	}
}
