// Package hosts runs real hosts from npm: what their own commands write is read by gateway import, and
// what gateway connect writes is read by them.
//
// The packages are below node_modules, which test/install.sh fills. The hosts run with an empty home folder and without a network.
package hosts
