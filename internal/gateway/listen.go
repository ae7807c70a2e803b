package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"syscall"

	"mcpgateway/internal/config"
)

// Addr returns the address that MCP is served on.
func (g *Gateway) Addr() string { return g.mcp.Addr().String() }

// URL returns the URL at which clients on this machine reach MCP.
func (g *Gateway) URL() string {
	scheme := "http://"
	if g.certs != nil {
		scheme = "https://"
	}
	return scheme + localAddress(g.mcp.Addr()) + pathMCP
}

// PublicURL returns the URL at which clients reach MCP: below public_url if that is set.
func (g *Gateway) PublicURL() string {
	if g.cfg.PublicURL != "" {
		return g.cfg.PublicURL + pathMCP
	}
	return g.URL()
}

// AdminAddr returns the address of health and metrics.
func (g *Gateway) AdminAddr() string { return g.admin.Addr().String() }

// AdminURL returns the URL at which programs on this machine reach health and metrics.
func (g *Gateway) AdminURL() string { return "http://" + localAddress(g.admin.Addr()) }

// ConsoleURL returns the URL of the console at the admin address, "" if admin.ui switches it off.
func (g *Gateway) ConsoleURL() string {
	if g.cfg.Admin.UI == config.UIOff {
		return ""
	}
	return g.AdminURL() + "/ui"
}

// localAddress returns an address that programs on this machine can connect to: a wildcard
// address is replaced by loopback.
func localAddress(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return a.String()
}

// listen opens the addresses, on other ports if those are allowed.
func (g *Gateway) listen(anyPort, anyAdminPort bool) (err error) {
	if g.mcp, err = listenOn(g.cfg.Listen, anyPort); err != nil {
		return fmt.Errorf("listen on %s: %w: choose another with --listen or the key listen", g.cfg.Listen, explained(err, "another program"))
	}
	if g.admin, err = listenOn(g.cfg.Admin.Listen, anyAdminPort); err != nil {
		return errors.Join(
			fmt.Errorf("listen on %s for health and metrics: %w: choose another with --admin-listen or the key admin.listen",
				g.cfg.Admin.Listen, explained(err, "another program, such as a second gateway")),
			g.mcp.Close())
	}
	return nil
}

// explained adds to an error the likely reason why an address cannot be opened. other names the programs that may use
// the port.
func explained(err error, other string) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; this user may not open a port that low", unwrapListen(err))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w; this machine does not have the address", unwrapListen(err))
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w by %s", syscall.EADDRINUSE, other)
	}
	return fmt.Errorf("%w; %s may use the port", unwrapListen(err), other)
}

// listenOn opens an address. With anyPort it opens another port of the same host if the
// port is taken.
func listenOn(address string, anyPort bool) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil || !anyPort || !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	host, _, split := net.SplitHostPort(address)
	if split != nil {
		return nil, err
	}
	return net.Listen("tcp", net.JoinHostPort(host, "0"))
}

// unwrapListen removes the parts of an error that repeat the address.
func unwrapListen(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
