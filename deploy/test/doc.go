// Package deploy holds what the folder deploy gives to people against what the
// gateway is and what Kubernetes, Docker, Prometheus and Grafana take. It has
// tests only. It is a module of its own, so that the gateway does not depend on
// what reads charts, manifests, compose files and queries.
//
// The tests run in a network namespace and a mount namespace of their own, since
// what is deployed listens on ports that are written down, and reads files at
// paths that are written down. They need Linux, root, and the npm packages that
// test/install.sh installs.
package deploy
