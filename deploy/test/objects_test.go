package deploy

import (
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// object is an object of any kind, decoded into the type of its API.
type object struct{ runtime.Object }

func (o object) kind() string { return o.GetObjectKind().GroupVersionKind().Kind }

func (o object) meta() meta.Object { return o.Object.(meta.Object) }

// newObject returns an empty object of the type that apiVersion and kind name.
func newObject(apiVersion, kind string) runtime.Object {
	switch apiVersion + " " + kind {
	case "v1 ConfigMap":
		return new(core.ConfigMap)
	case "v1 Service":
		return new(core.Service)
	case "v1 PersistentVolumeClaim":
		return new(core.PersistentVolumeClaim)
	case "v1 ServiceAccount":
		return new(core.ServiceAccount)
	case "apps/v1 Deployment":
		return new(apps.Deployment)
	case "batch/v1 Job":
		return new(batch.Job)
	case "policy/v1 PodDisruptionBudget":
		return new(policy.PodDisruptionBudget)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return new(autoscaling.HorizontalPodAutoscaler)
	case "networking.k8s.io/v1 NetworkPolicy":
		return new(networking.NetworkPolicy)
	case "networking.k8s.io/v1 Ingress":
		return new(networking.Ingress)
	case "gateway.networking.k8s.io/v1 HTTPRoute":
		return new(gatewayapi.HTTPRoute)
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return new(monitoring.ServiceMonitor)
	case "monitoring.coreos.com/v1 PrometheusRule":
		return new(monitoring.PrometheusRule)
	}
	return nil
}

// decodeAll decodes the documents of a file strictly. An unknown or duplicate field
// fails the test.
func decodeAll(t *testing.T, name, text string) []object {
	t.Helper()
	var objects []object
	for _, doc := range strings.Split("\n"+text, "\n---\n") {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatalf("%s: %v in\n%s", name, err, doc)
		}
		if kind == (meta.TypeMeta{}) && strings.TrimSpace(strings.ReplaceAll(doc, "---", "")) == "" {
			continue // a disabled object renders to an empty document
		}
		o := newObject(kind.APIVersion, kind.Kind)
		if o == nil {
			t.Fatalf("%s: unexpected kind of object %+v:\n%s", name, kind, doc)
		}
		if err := yaml.UnmarshalStrict([]byte(doc), o); err != nil {
			t.Fatalf("%s: %s: %v in\n%s", name, kind.Kind, err, doc)
		}
		objects = append(objects, object{o})
	}
	return objects
}

func deploymentOf(o object) *apps.Deployment {
	d, _ := o.Object.(*apps.Deployment)
	return d
}
