// Package hostimport translates the configurations of hosts (Claude Desktop, editors, agents) into
// one gateway.yaml.
//
// Every value of env and headers becomes a reference to an environment variable, and so does every
// secret in an argument or URL that is recognized by its name or prefix. Everything else is
// copied. The result loads: servers that package config would refuse are left out with a warning.
//
// The package holds no state, reads no files and connects to nothing.
package hostimport
