// Package shells sources the completions of the gateway in real shells. bash is that of the machine; test/shells/install.sh unpacks zsh and fish.
package shells
