package httpconn

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// TLS is a configuration of TLS that may change.
type TLS interface {
	// Get returns the roots and certificates. It must not block. The pool sets the name of the server and the protocols.
	Get() (*tls.Config, error)
}

// Config says how to reach a server over HTTP.
type Config struct {
	URL *url.URL // http or https; user information in it becomes basic authentication
	// Headers are sent with every request. The values may be secrets and are never
	// logged. Headers of the protocol itself cannot be set.
	Headers map[string]string
	// Credentials are sent beside Headers; nil: there are none.
	Credentials Credentials

	// TLS has the configuration of the next handshake. nil: the defaults of the system.
	TLS TLS

	// Book records the sessions that are open at the server. It may be nil.
	Book SessionBook

	DialContext func(ctx context.Context, network, addr string) (net.Conn, error) // nil: over the network
}

// HasCredentials reports whether requests carry configured credentials.
func (o *Config) HasCredentials() bool {
	for name := range o.Headers {
		if strings.EqualFold(name, "Authorization") || strings.Contains(strings.ToLower(name), "key") {
			return true
		}
	}
	return o.Credentials != nil
}

// OpenSession is a session at a server of the legacy era.
type OpenSession struct {
	URL      string // of the server as configured, without user information
	ID       string
	Revision wire.Revision
}

// SessionBook remembers sessions, so that somebody else ends those that are left when this process has died. Its methods do not block.
type SessionBook interface {
	Opened(s OpenSession)
	Closed(s OpenSession)
}

// passing is an error of Credentials that knows whether its reason stays.
type passing interface {
	error
	// HasPassed reports whether the reason is gone, such as a grant that was missing.
	HasPassed() bool
	// Temporary reports whether the same request may succeed later, such as one to a server that does not answer now.
	Temporary() bool
}

// Credentials authenticate requests to a server. Their methods are called concurrently.
// The text of their errors is for clients; the error that such an error unwraps to is for
// the log.
type Credentials interface {
	// Headers returns headers of a request by their canonical names. They replace
	// configured headers. who is the principal of the call or of the session, nil for
	// requests of the gateway itself.
	Headers(ctx context.Context, who *call.Principal) (http.Header, error)
	// Refused is called when the server has answered a request that had the headers
	// sent with status 401 or 403. answer holds the headers of the response. If again
	// is true, the request is sent once more, with new Headers. An error replaces the
	// response.
	Refused(ctx context.Context, who *call.Principal, sent http.Header, status int, answer http.Header) (again bool, err error)
}

// ToolHeaders knows the parameters of the server's tools that are sent in headers too
// (2026-07-28, basic/transports/streamable-http, "Custom Headers from Tool Parameters").
type ToolHeaders interface {
	// HeaderParams returns the parameters of the tool with this native name, nil for
	// none. It must not block.
	HeaderParams(tool string) []wire.HeaderParam
	// Relist lists the tools again, and returns when HeaderParams knows the new list.
	Relist(ctx context.Context) error
}
