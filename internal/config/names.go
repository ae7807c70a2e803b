package config

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

const MaxName = 32

var (
	namePattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	notInName   = regexp.MustCompile(`[^a-z0-9]+`)
)

// NameOf returns the name of an upstream for its key in the file. A key that is a valid name stays; else
// the name consists of its lower-case letters and digits, with one - for each run of other characters. The
// name depends on the key alone.
func NameOf(key string) string {
	if namePattern.MatchString(key) {
		return key
	}
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(key), "-"), "-")
	switch {
	case name == "": // no valid character; the names of two keys must differ nevertheless
		name = "u-" + digest8(key)
	case name[0] <= '9':
		name = "u-" + name
	}
	if len(name) > MaxName {
		name = strings.TrimRight(name[:MaxName-9], "-") + "-" + digest8(key)
	}
	return name
}

func digest8(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}
