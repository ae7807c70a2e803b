package config

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// formats check strings of the schema and return their normal form. Their errors begin with "must" and do
// not contain the text, which may have been expanded from a secret.
var formats = map[string]func(string) (string, error){
	"non-empty": func(s string) (string, error) {
		return matching(s, nonEmpty, "must not be empty or contain control characters")
	},
	"env-name": func(s string) (string, error) {
		return matching(s, envName, "must be the name of an environment variable")
	},
	"glob": func(s string) (string, error) {
		return matching(s, nonEmpty, "must be a name; * in it stands for any run of characters")
	},
	"tag": func(s string) (string, error) {
		return matching(s, tagForm, "must be 1 to 64 characters of A-Z a-z 0-9 _ . : / -")
	},
	"item-name": func(s string) (string, error) {
		return matching(s, itemName, "must be 1 to 64 characters of A-Z a-z 0-9 _ -")
	},
	"separator": func(s string) (string, error) {
		return matching(s, separator, "must be 1 to 4 characters of A-Z a-z 0-9 _ -")
	},
	"prefix": func(s string) (string, error) {
		return matching(s, prefix, "must be empty, or begin with a lower-case letter and have at most 32 of a-z 0-9 -, since it begins names and URI schemes")
	},
	"subject": func(s string) (string, error) {
		return matching(s, subject, "must be 1 to 256 characters without control characters")
	},
	"sha256": func(s string) (string, error) {
		s, err := matching(s, digest, "must be the SHA-256 of the key in 64 hex digits, and not the key itself; gateway key prints both")
		return strings.ToLower(s), err
	},
	"scope": func(s string) (string, error) {
		return matching(s, scopeForm, "must be one scope, without spaces and quotes")
	},
	"store-url": func(s string) (string, error) {
		_, err := parseStoreURL(s)
		return s, err
	},
	"store-prefix": func(s string) (string, error) {
		return matching(s, storePrefix, "must be 1 to 64 characters of A-Z a-z 0-9 _ . : -")
	},
	"expiry":      expiry,
	"issuer":      issuerURL,
	"secure-url":  secureURL,
	"network":     network,
	"private-key": privateKey,
	"rule-name":   ruleName,
	"claim":       claimValue,
	"rate":        rate,
	"address":     address,
	"url":         remoteURL,
	"base-url":    baseURL,
	"origin":      origin,
	"host":        hostValue,
	"file-uri":    fileURI,
	"redact-path": func(s string) (string, error) {
		return matching(s, redactPath, "must be keys separated by dots; * stands for any key or element and ** for any number of keys")
	},
	"seal-key": func(s string) (string, error) {
		if sealKey(s) == nil {
			return "", errors.New("must be 32 random bytes in hex or Base64, such as openssl rand -base64 32 prints")
		}
		return s, nil
	},
}

var (
	nonEmpty     = regexp.MustCompile(`^[^\x00-\x1f\x7f]+$`)
	envName      = regexp.MustCompile(`^[^=\x00-\x20]+$`)
	itemName     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	tagForm      = regexp.MustCompile(`^[A-Za-z0-9_.:/-]{1,64}$`)
	separator    = regexp.MustCompile(`^[A-Za-z0-9_-]{1,4}$`)
	prefix       = regexp.MustCompile(`^([a-z][a-z0-9-]{0,31})?$`)
	ruleNameForm = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$`)
	redactPath   = regexp.MustCompile(`^[^.\x00-\x1f]+(\.[^.\x00-\x1f]+)*$`)
	hostName     = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])$`)
	storePrefix  = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)
	token        = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // RFC 9110, section 5.6.2
)

// sealKeySize is the length of a sealing key in bytes.
const sealKeySize = 32

// sealKey returns the bytes of a sealing key, nil if the text is not a key.
func sealKey(s string) []byte {
	for _, decode := range []func(string) ([]byte, error){
		hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawStdEncoding.DecodeString,
		base64.URLEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
	} {
		if key, err := decode(s); err == nil && len(key) == sealKeySize {
			return key
		}
	}
	return nil
}

func matching(s string, re *regexp.Regexp, msg string) (string, error) {
	if !re.MatchString(s) {
		return "", errors.New(msg)
	}
	return s, nil
}

// address is host:port; an empty host means all interfaces.
func address(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if errors.Is(err, strconv.ErrRange) {
		return "", errors.New("must have a port of at most 65535")
	}
	if err != nil || strings.ContainsAny(host, "/ \t\r\n\x00") {
		return "", errors.New("must be host:port, such as 127.0.0.1:8080")
	}
	return s, nil
}

// isLoopback reports whether only this machine reaches an address, host:port.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && isLoopbackHost(host)
}

// isLoopbackHost reports whether a host, without brackets, is this machine. Of names only localhost is,
// since other names may resolve to any address.
func isLoopbackHost(host string) bool {
	host = strings.TrimSuffix(host, ".")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// remoteURL is the URL of an upstream.
func remoteURL(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", errors.New("must be an absolute http or https URL, such as https://mcp.example.com/mcp")
	case u.User != nil:
		return "", errors.New("must be a URL without user and password; send them in headers")
	case u.Fragment != "":
		return "", errors.New("must be a URL without a fragment")
	}
	return s, nil
}

// baseURL checks a URL to which paths are appended, and removes slashes at its end.
func baseURL(s string) (string, error) {
	if s == "" {
		return s, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" ||
		u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", errors.New("must be an http or https URL without user, password, query and fragment, such as https://mcp.example.com")
	}
	return strings.TrimRight(s, "/"), nil
}

// origin checks a value of the header Origin: scheme, host and port in lower case.
func origin(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Hostname() == "*" || !strings.EqualFold(s, u.Scheme+"://"+u.Host) {
		return "", errors.New("must be an origin, such as https://app.example.com")
	}
	return strings.ToLower(s), nil
}

// hostValue checks a value of the header Host: a name or address with or without a port, in lower case.
func hostValue(s string) (string, error) {
	host, port := s, "0"
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		host, port = s[:i], s[i+1:]
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil || !hostName.MatchString(host) {
		return "", errors.New("must be a host, such as mcp.example.com or mcp.example.com:8443")
	}
	return strings.ToLower(s), nil
}

// fileURI checks the URI of a root. The specification allows no other scheme (spec 2025-11-25,
// client/roots).
func fileURI(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "file" || !strings.HasPrefix(u.Path, "/") || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("must be a file URI with an absolute path, such as file:///home/me/project")
	}
	return s, nil
}

// entryFormats return checks for the entries of one dictionary.
var entryFormats = map[string]func() func(name, value string) error{
	"env":     func() func(string, string) error { return envEntry },
	"headers": headerEntries,
	// Without templates: no principal sends these.
	"plain-headers": func() func(string, string) error { return plainHeader },
}

func envEntry(name, value string) error {
	switch {
	case !envName.MatchString(name):
		return errors.New("must be the name of an environment variable")
	case strings.ContainsRune(value, 0):
		return errors.New("must not contain a null byte")
	}
	return nil
}

// reservedHeaders are the headers that the gateway sets as the protocol demands.
var reservedHeaders = map[string]bool{
	"accept": true, "connection": true, "content-length": true, "content-type": true, "host": true, "last-event-id": true,
	"mcp-gateway-via": true, "mcp-method": true, "mcp-name": true, "mcp-protocol-version": true, "mcp-session-id": true, "transfer-encoding": true,
}

// IsReservedHeader reports whether the gateway sets a header itself.
func IsReservedHeader(name string) bool { return reservedHeaders[strings.ToLower(name)] }

func plainHeader(name, value string) error {
	switch {
	case !token.MatchString(name):
		return errors.New("must be the name of an HTTP header")
	case reservedHeaders[strings.ToLower(name)]:
		return errors.New("is a header that the gateway sets itself; remove it")
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return errors.New("must not contain line ends or other control characters")
	}
	return nil
}

func headerEntries() func(name, value string) error {
	seen := make(map[string]string)
	return func(name, value string) error {
		lower := strings.ToLower(name)
		first, twice := seen[lower]
		seen[lower] = name
		switch {
		case !token.MatchString(name):
			return errors.New("must be the name of an HTTP header")
		case reservedHeaders[lower]:
			return errors.New("is a header that the gateway sets itself; remove it")
		case twice:
			return fmt.Errorf("is the same header as %s; keep one of them", first)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return errors.New("must not contain line ends or other control characters")
		}
		_, err := ParseTemplate(value)
		return err
	}
}
