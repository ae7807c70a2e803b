// Package deploy tests the files in the folder deploy: the charts, manifests,
// compose files, Dockerfiles, alerts and dashboards must fit the gateway and be
// accepted by Kubernetes, Docker, Prometheus and Grafana. The package has tests
// only. It is a separate module, so that the gateway does not depend on the
// parsers of these formats.
//
// The tests run in their own network and mount namespaces, because the deployed
// programs listen on fixed ports and read files at fixed paths. The tests need
// Linux, root or unprivileged user namespaces, and the npm packages that
// test/install.sh installs.
package deploy
