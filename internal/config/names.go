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

// NameOf makes an upstream's name of a key. A key that is a name stays as it is;
// else the name is its lower-case letters and digits with one - for each run
// of anything else. The same key always makes the same name, whatever else the
// file has.
func NameOf(key string) string {
	if namePattern.MatchString(key) {
		return key
	}
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(key), "-"), "-")
	switch {
	case name == "": // nothing that a name can have: keys must differ all the same
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
