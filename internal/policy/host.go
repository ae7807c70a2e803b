package policy

import (
	"net/netip"
	"strconv"
	"strings"
)

// lowerHost returns an authority with the host in the one form that it has: in lower
// case, without the port that its scheme has anyway and a dot at its end, an address
// in its shortest form.
func lowerHost(scheme, authority string, zeros int) string {
	user, host := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, host = authority[:i+1], authority[i+1:]
	}
	name, port := strings.ToLower(host), ""
	if i := strings.LastIndexByte(name, ':'); i >= 0 && !strings.Contains(name[i:], "]") {
		name, port = name[:i], name[i:]
		if number := strings.TrimLeft(port[1:], "0"); number != "" {
			port = ":" + number
		} else if port == ":" {
			port = ""
		}
	}
	if port == defaultPorts[scheme] {
		port = ""
	}
	name = strings.TrimSuffix(name, ".")
	switch {
	case strings.HasPrefix(name, "["):
		name = address6(name)
	case special[scheme]:
		name = address4(name, zeros)
	}
	if scheme == "file" && name == "localhost" {
		name = ""
	}
	return user + name + port
}

// address6 returns an IPv6 address in brackets in its shortest form, without its
// zone, or the IPv4 address that it stands for. What is none stays.
func address6(host string) string {
	text, found := strings.CutSuffix(host[1:], "]")
	ip, err := netip.ParseAddr(text)
	if !found || err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip.String()
	}
	return "[" + ip.String() + "]"
}

// octal and decimal are how numbers are read that begin with 0: the one by the URL
// standard and inet_aton, the other by those who know no better.
const (
	octal   = 8
	decimal = 10
)

// address4 returns an IPv4 address that is written with fewer than four numbers, or
// with other than decimal ones (URL standard, "IPv4 parser"), in its usual form. What
// is none stays.
func address4(host string, zeros int) string {
	if host == "" || hexDigit(host[len(host)-1]) < 0 && host[len(host)-1] != 'x' {
		return host
	}
	numbers := strings.Split(host, ".")
	if len(numbers) > 4 {
		return host
	}
	ip := uint64(0)
	for i, text := range numbers {
		base := 10
		if digits, hex := strings.CutPrefix(text, "0x"); hex {
			text, base = "0"+digits, 16
		} else if len(text) > 1 && text[0] == '0' {
			base = zeros
		}
		n, err := strconv.ParseUint(text, base, 32)
		last := i == len(numbers)-1
		if err != nil || !last && n > 255 || last && n>>(8*(5-len(numbers))) != 0 {
			return host
		}
		if !last {
			n <<= 8 * (3 - i)
		}
		ip |= n
	}
	return netip.AddrFrom4([4]byte{byte(ip >> 24), byte(ip >> 16), byte(ip >> 8), byte(ip)}).String()
}
