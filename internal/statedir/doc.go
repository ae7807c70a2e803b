// Package statedir keeps files in the state folder (the key state_dir): what the gateway
// remembers of upstreams across restarts, and the file format that other packages use
// for what they keep there.
package statedir
