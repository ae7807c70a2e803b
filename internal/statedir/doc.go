// Package statedir keeps files in the state folder (the key state_dir). It stores the
// era and the catalog of upstreams across restarts, and defines the file format that
// other packages use there.
package statedir
