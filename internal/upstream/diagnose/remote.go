package diagnose

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/plaintext"
)

// RemoteServer has the data about a server that Remote needs.
type RemoteServer struct {
	Name string // of the upstream
	URL  *url.URL
	// OneOfSeveral says that the upstream has further URLs.
	OneOfSeveral bool
	// HasCredentials says that requests carry configured credentials.
	HasCredentials bool
	// Mask removes secrets from a text of the server.
	Mask func(text string) string
}

// NothingListens begins the advice about an address that refuses connections.
const NothingListens = "nothing listens on "

// RequestMark begins the end of an advice that has the id of the request, as the log of the server may have it.
const RequestMark = " (request "

// Remote says in one sentence why there is no connection to a remote server, and what
// to do about it. The text is for the log: it may contain addresses.
func Remote(s RemoteServer, why error) string {
	at := Show(s.URL)
	if r, ok := errors.AsType[HTTPError](why); ok {
		return fmt.Sprintf("%s answered HTTP %d%s: %s", at, r.StatusCode(), ServerMessage(why, s.Mask), s.statusAdvice(r)) + ServerRequest(why)
	}
	if u, ok := errors.AsType[*UnexpectedContentType](why); ok {
		return fmt.Sprintf("%s answered HTTP %d with %s and not with MCP: %s", at, u.Status, ContentName(u.MediaType), u.advice())
	}
	if next := networkAdvice(s.URL, why); next != "" {
		return next
	}
	return fmt.Sprintf("%s: %v", at, why)
}

// ServerMessage returns what came with a status, quoted on one line and bounded, "" if there is nothing in why. It is
// masked first, as a cut secret is not recognized. It may repeat the request.
func ServerMessage(why error, mask func(string) string) string {
	r, ok := errors.AsType[HTTPError](why)
	if !ok || r.ServerMessage() == "" {
		return ""
	}
	text := mask(r.ServerMessage())
	if call, ok := errors.AsType[*FailedCall](why); ok {
		text = call.Hide(text)
	}
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", plaintext.Line(text, MaxExcerpt))
}

// ServerRequest returns the end of a text about a status: the id that the server gave the response, "" if there is none or if
// it is that of the call.
func ServerRequest(why error) string {
	r, ok := errors.AsType[HTTPError](why)
	if !ok || r.ServerRequestID() == "" {
		return ""
	}
	if call, ok := errors.AsType[*FailedCall](why); ok && call.Request == r.ServerRequestID() {
		return ""
	}
	return RequestMark + r.ServerRequestID() + ")"
}

// WithoutRequest returns a text without the end that ServerRequest has added.
func WithoutRequest(text string) string {
	if at := strings.LastIndex(text, RequestMark); at >= 0 {
		return text[:at]
	}
	return text
}

func (s RemoteServer) statusAdvice(r HTTPError) string {
	switch status := r.StatusCode(); {
	case status == http.StatusUnauthorized && s.HasCredentials && r.UsesOAuth():
		return "the credentials under headers or auth are not accepted; check that they are the right ones and have not expired. " +
			"This server uses OAuth: auth: {kind: user} with gateway login " + s.Name + advice.ConfigFlag() + " is another way"
	case status == http.StatusUnauthorized && s.HasCredentials:
		return "the credentials under headers or auth are not accepted; check that they are the right ones and have not expired"
	case status == http.StatusUnauthorized && r.UsesOAuth():
		how := "set auth: {kind: user}"
		if add := s.replacedBy("--oauth"); add != "" {
			how = "run " + add + ", or " + how
		}
		return "this server uses OAuth: " + how + "; then run gateway login " + s.Name + advice.ConfigFlag()
	case status == http.StatusUnauthorized:
		how := `it wants credentials; give them under headers, such as Authorization: "Bearer ${TOKEN}", or under auth`
		oauth := "set auth: {kind: user}"
		if add := s.replacedBy("--header 'Authorization: Bearer KEY'"); add != "" {
			how += ", or run " + add
			oauth = "give --oauth in place of --header"
		}
		// Servers of revision 2025-03-26 use OAuth without a challenge that names it.
		return how + "; if it uses OAuth, " + oauth + ", then run gateway login " + s.Name + advice.ConfigFlag()
	case status == http.StatusForbidden && len(r.MissingScopes()) > 0:
		lacks := "the scope"
		if len(r.MissingScopes()) > 1 {
			lacks = "one of the scopes"
		}
		return fmt.Sprintf("the credentials under headers or auth lack %s %.200s (insufficient_scope)", lacks, strings.Join(r.MissingScopes(), ", "))
	case status == http.StatusForbidden && !s.HasCredentials:
		return "it refuses a request without credentials, or does not let this machine in; " +
			`if it wants credentials, give them under headers, such as Authorization: "Bearer ${TOKEN}", or under auth`
	case status == http.StatusForbidden:
		return "it knows who is asking and refuses; check the rights of the credentials under headers, and whether it lets this machine in"
	case status == http.StatusNotFound && strings.Contains(s.URL.Path, "/mcp/"):
		return "check the path of url; after /mcp/ a gateway expects the name of one of its profiles"
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented: // of POST
		return "check the path of url; servers often serve MCP at /mcp, and older ones at /sse"
	case status == http.StatusTooManyRequests:
		return "it is asked too often; it is tried again"
	case status >= http.StatusInternalServerError:
		return "the fault is on its side, or on that of a proxy before it; look into its log"
	case r.WantsTLS():
		return "it speaks TLS: write https:// in url"
	default:
		return "check url and headers against the server's documentation"
	}
}

// replacedBy returns the command that replaces the entry of the server, "" if there is none to show.
func (s RemoteServer) replacedBy(flags string) string {
	if s.Name == "" || s.OneOfSeveral || s.Mask != nil && s.Mask(s.URL.String()) != s.URL.String() {
		return ""
	}
	return ReplaceCommand(s.Name, s.URL, flags)
}

// plainURL matches a URL that a shell takes as one word.
var plainURL = regexp.MustCompile(`^[A-Za-z0-9:/._~%@+,=-]+$`)

// ReplaceCommand returns the command that replaces the entry of a server with a URL. It returns "" for a URL that has a part
// that may be secret, or that needs quotes.
func ReplaceCommand(name string, u *url.URL, flags string) string {
	at := Show(u)
	if at != u.String() || !plainURL.MatchString(at) {
		return ""
	}
	return "gateway add " + name + " " + at + " " + flags + " --replace" + advice.ConfigFlag()
}

// networkAdvice explains an error of the network, "" if the error is not known.
func networkAdvice(u *url.URL, why error) string {
	at, host := Show(u), u.Host
	if e, ok := errors.AsType[*net.DNSError](why); ok {
		if e.IsNotFound {
			return fmt.Sprintf("there is no host %q: check the name in url", e.Name)
		}
		return fmt.Sprintf("the name %q cannot be resolved now (%s): check the network and its name servers", e.Name, e.Err)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](why); ok || errors.Is(why, http.ErrSchemeMismatch) || strings.Contains(why.Error(), "first record does not look like a TLS handshake") {
		return fmt.Sprintf("%s does not speak TLS: write http:// in url, or let the server do TLS", host)
	}
	if e, ok := errors.AsType[x509.HostnameError](why); ok {
		return fmt.Sprintf("the certificate of %s is for another host (%v): write a name in url that it is for", host, e)
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](why); ok {
		return fmt.Sprintf("the certificate of %s is not valid (%v): the server needs a new one, or this machine the right time", host, e)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](why); ok {
		return fmt.Sprintf("the certificate of %s is signed by an authority that is not trusted here: name a file with that authority's certificate under ca", host)
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](why); ok {
		return fmt.Sprintf("the certificate of %s cannot be verified: %v", host, e.Err)
	}
	if e, ok := errors.AsType[*net.OpError](why); ok && e.Op == "remote error" { // an alert of TLS
		return fmt.Sprintf("%s refuses TLS with this gateway (%v): it may ask for a client certificate, which you name under client_cert, or another version of TLS", host, e.Err)
	}
	broken := errors.Is(why, syscall.ECONNRESET) || errors.Is(why, syscall.EPIPE)
	// TLS 1.3 refuses a client after its handshake, when HTTP/2 or a request may have begun.
	if broken && u.Scheme == "https" || strings.Contains(why.Error(), "client conn could not be established") {
		return fmt.Sprintf("%s ends the connection after the handshake of TLS: it may ask for a client certificate, which you name under client_cert", host)
	}
	timeout, isNet := errors.AsType[net.Error](why)
	switch {
	case errors.Is(why, syscall.ECONNREFUSED):
		return fmt.Sprintf(NothingListens+"%s: start the server, or check the host and port of url", HostPort(u))
	case errors.Is(why, syscall.EHOSTUNREACH), errors.Is(why, syscall.ENETUNREACH):
		return fmt.Sprintf("there is no way to %s: check the network, and the host of url", host)
	case errors.Is(why, ErrHandshakeTimeout), errors.Is(why, context.DeadlineExceeded), isNet && timeout.Timeout():
		return fmt.Sprintf("%s does not answer in time: check that the server is at work there, that no firewall is in between, and raise timeout if it is slow", at)
	case strings.Contains(why.Error(), "malformed HTTP"):
		return fmt.Sprintf("%s does not answer in HTTP/1.1: check the host and port of url; if it speaks TLS, write https://", host)
	case broken, errors.Is(why, net.ErrClosed), strings.Contains(why.Error(), "EOF"):
		return fmt.Sprintf("%s ends the connection without an answer (%v): if it speaks TLS, write https:// in url; else look into its log", host, why)
	default:
		return ""
	}
}

// Show returns a URL without the parts that may be secret.
func Show(u *url.URL) string {
	s := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return s.String()
}

// HostPort returns the host and port of an http or https URL, which may not name its port.
func HostPort(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}
