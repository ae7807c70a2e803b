package matrix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// domain is the domain of the servers whose names may stop to resolve.
const domain = ".faults.test"

// nameserver returns the address that the resolver of this machine asks.
func nameserver() (netip.Addr, error) {
	text, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return netip.Addr{}, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		addr, err := netip.ParseAddr(fields[1])
		if err != nil || !addr.Is4() {
			return addr, fmt.Errorf("the cells of DNS need an IPv4 name server first in /etc/resolv.conf, or none: it has %q", fields[1])
		}
		return addr, nil
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil // as Go's resolver does
}

// addNameserver gives loopback the address of the name server. The network namespace of the tests has no other use for it.
func addNameserver() error {
	addr, err := nameserver()
	if err != nil || addr.IsLoopback() {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := lo.SetInet4Addr(addr.AsSlice()); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, lo); err != nil {
		return fmt.Errorf("give loopback the address %v: %w", addr, err)
	}
	return nil
}

// resolve answers queries for names in [domain] with 127.0.0.1, unless the server of that name has the fault [dns].
func resolve(servers map[string]*web) error {
	addr, err := nameserver()
	if err != nil {
		return err
	}
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 53)))
	if err != nil {
		return err
	}
	go func() {
		query := make([]byte, 512)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(query)
			if err != nil {
				return
			}
			if answer := resolved(query[:n], servers); answer != nil {
				conn.WriteToUDPAddrPort(answer, from)
			}
		}
	}()
	return nil
}

// resolved returns the answer to a query (RFC 1035, section 4), nil if it cannot be read.
func resolved(query []byte, servers map[string]*web) []byte {
	const header, typeA, answerFlags, nxdomain = 12, 1, 0x8180, 3
	var labels []string
	at := header
	for at < len(query) && query[at] != 0 {
		next := at + 1 + int(query[at])
		if next > len(query) {
			return nil
		}
		labels = append(labels, string(query[at+1:next]))
		at = next
	}
	end := at + 5 // the final zero, the type and the class
	if end > len(query) {
		return nil
	}
	answer := append([]byte{}, query[:end]...)
	flags, count := uint16(answerFlags), uint16(0)
	name, ours := strings.CutSuffix(strings.Join(labels, "."), domain)
	server := servers[name]
	switch {
	case !ours || server == nil || server.broken(dns):
		flags |= nxdomain
	case binary.BigEndian.Uint16(query[at+1:]) == typeA:
		count = 1
		answer = append(answer, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
	}
	binary.BigEndian.PutUint16(answer[2:], flags)
	for i, n := range []uint16{1, count, 0, 0} {
		binary.BigEndian.PutUint16(answer[4+2*i:], n)
	}
	return answer
}
