package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"mcpgateway/internal/upstream/process"
)

// stillborn is the error of a conversation that did not come about, with what
// helps an operator to understand why. None of that is for clients: its text is
// that of the error alone.
type stillborn struct {
	error
	said    string // the last line of the server's standard error
	babbled bool   // the server printed what is no message
	unheard bool   // it ended before it answered
}

func (s *stillborn) Unwrap() error { return s.error }

const (
	checkServer = "check that it is an MCP server which speaks over standard input and output"
	checkStdio  = checkServer + ", and that its args do not choose another transport"
)

// advice says in one sentence why there is no conversation, and what whoever
// runs the gateway can do about it. It is for the log: it may tell of addresses,
// paths and what the server printed.
func (o *Options) advice(why error) string {
	switch {
	case o.Stdio != nil:
		return programAdvice(o.Stdio, why)
	case o.HTTP != nil:
		return o.HTTP.advice(why, o.Mask)
	default:
		return why.Error()
	}
}

// advice is [Options.advice] for a program.
func programAdvice(o *process.Config, why error) string {
	if f, ok := errors.AsType[*process.StartError](why); ok {
		return startAdvice(o, f)
	}
	end, ended := errors.AsType[*process.ExitError](why)
	birth, born := errors.AsType[*stillborn](why)
	said := ""
	if ended {
		said = end.LastLine
	} else if born {
		said = birth.said
	}
	if said != "" {
		said = fmt.Sprintf("; the last line of its standard error is %q", said)
	}
	const server = checkServer
	switch {
	case born && isEndless(why):
		return fmt.Sprintf("the program %q prints text that is no MCP message (%v)%s: %s", o.Command, why, said, checkStdio)
	case isEndless(why):
		return fmt.Sprintf("the program %q: %v%s: it is started again; have its tools answer with less, and see that it prints nothing but MCP messages on standard output", o.Command, why, said)
	case born && birth.babbled && ended:
		return fmt.Sprintf("the program %q printed text that is no MCP message and ended with %s%s: %s, and that its args are complete", o.Command, end.Status(), said, server)
	case born && birth.babbled:
		return fmt.Sprintf("the program %q prints text that is no MCP message (%v)%s: %s", o.Command, why, said, checkStdio)
	case born && ended && end.Err == nil:
		return fmt.Sprintf("the program %q ended with status 0 before initialize%s: %s, that its args do not only make it print something, and that it stays in the foreground", o.Command, said, server)
	case born && ended && said == "":
		return fmt.Sprintf("the program %q ended with %s before initialize and said nothing on its standard error: check its args and env, and run it by hand", o.Command, end.Status())
	case born && ended:
		return fmt.Sprintf("the program %q ended with %s before initialize%s: mend that, and check its args and env", o.Command, end.Status(), said)
	case ended:
		return fmt.Sprintf("the program %q ended with %s%s: it is started again", o.Command, end.Status(), said)
	case errors.Is(why, errNoHello):
		return fmt.Sprintf("the program %q: %v%s: %s, and raise timeout if it takes longer, as a first download may; a server of modern revisions that leaves initialize unanswered needs era: modern", o.Command, why, said, server)
	default:
		return fmt.Sprintf("the program %q: %v%s", o.Command, why, said)
	}
}

// startAdvice says why a program could not be started. The reason is looked for
// anew, since the supervisor's word for it is but text.
func startAdvice(o *process.Config, f *process.StartError) string {
	const more = "give its whole path as command, or add its folder to PATH under env"
	if o.Dir != "" {
		if info, err := os.Stat(o.Dir); err != nil || !info.IsDir() {
			return fmt.Sprintf("the program %q was not started, as there is no folder %q: check cwd", o.Command, o.Dir)
		}
	}
	at := o.Command
	if !strings.Contains(at, "/") {
		path, _ := lastOf(o.Env, "PATH")
		if at = inPath(path, at); at == "" {
			if words := strings.Fields(o.Command); len(words) > 1 {
				return fmt.Sprintf("there is no program %q in the folders of PATH (%s): if those are a program and its arguments, make %q the command and begin args with [\"%s\"]",
					o.Command, path, words[0], strings.Join(words[1:], `", "`))
			}
			return fmt.Sprintf("there is no program %q in the folders of PATH (%s): install it, %s", o.Command, path, more)
		}
	} else if !filepath.IsAbs(at) {
		at = filepath.Join(o.Dir, at)
	}
	info, err := os.Stat(at)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Sprintf("there is no file %q: check command; a relative path begins at cwd", at)
	case err != nil:
		return fmt.Sprintf("the program %q cannot be started: %v", o.Command, err)
	case info.IsDir():
		return fmt.Sprintf("%q is a folder, not a program: check command", at)
	case info.Mode()&0o111 == 0:
		return fmt.Sprintf("the file %q is not executable: chmod +x it, or make its interpreter the command and it the first of args", at)
	case strings.Contains(f.Err.Error(), syscall.ENOENT.Error()):
		return fmt.Sprintf("the program %q cannot be started, as what its first line (#!) names as interpreter, or its loader, is not there: install that", at)
	case strings.Contains(f.Err.Error(), syscall.ENOEXEC.Error()):
		return fmt.Sprintf("the file %q is no program for this machine: if it is a script, its first line must name an interpreter (#!/bin/sh)", at)
	default:
		return fmt.Sprintf("the program %q cannot be started: %v", at, f.Err)
	}
}

// inPath returns the file that a program's name stands for, "" when there is none.
// One that is there and cannot be executed is better than none.
func inPath(path, name string) string {
	found := ""
	for _, dir := range filepath.SplitList(path) {
		at := filepath.Join(dir, name)
		info, err := os.Stat(at)
		switch {
		case err != nil || info.IsDir():
		case info.Mode()&0o111 != 0:
			return at
		case found == "":
			found = at
		}
	}
	return found
}

// lastOf returns the value of a variable in an environment.
func lastOf(env []string, name string) (value string, ok bool) {
	for _, entry := range env {
		if v, is := strings.CutPrefix(entry, name+"="); is {
			value, ok = v, true
		}
	}
	return value, ok
}

// advice is [Options.advice] for a remote server. mask is [Options.Mask].
func (o *HTTPOptions) advice(why error, mask func(string) string) string {
	at := shown(o.URL)
	if r, ok := errors.AsType[*refusal](why); ok {
		return fmt.Sprintf("%s answered HTTP %d%s: %s", at, r.status, r.says(mask), o.refusalAdvice(r))
	}
	if p, ok := errors.AsType[*strangePage](why); ok {
		return fmt.Sprintf("%s answered HTTP %d with %s and not with MCP: %s", at, p.status, contentName(p.mediaType), p.advice())
	}
	if next := o.networkAdvice(why); next != "" {
		return next
	}
	return fmt.Sprintf("%s: %v", at, why)
}

// says is the error that came with a refusal, on one line and bounded: masked first,
// since half a secret is not found.
func (r *refusal) says(mask func(string) string) string {
	if r.rpc == nil {
		return ""
	}
	return fmt.Sprintf(" (%.200q)", mask(r.rpc.Message))
}

func (o *HTTPOptions) refusalAdvice(r *refusal) string {
	credentials := o.Credentials != nil
	for name := range o.Headers {
		credentials = credentials || strings.EqualFold(name, "Authorization") || strings.Contains(strings.ToLower(name), "key")
	}
	switch {
	case r.status == http.StatusUnauthorized && credentials:
		return "the credentials under headers or auth are not accepted; check that they are the right ones and have not expired"
	case r.status == http.StatusUnauthorized:
		return `it wants credentials; give them under headers, such as Authorization: "Bearer ${TOKEN}", or under auth`
	case r.status == http.StatusForbidden:
		return "it knows who is asking and refuses; check the rights of the credentials under headers, and whether it lets this machine in"
	case r.status == http.StatusNotFound || r.status == http.StatusMethodNotAllowed:
		return "check the path of url; servers often serve MCP at /mcp, and older ones at /sse"
	case r.status == http.StatusTooManyRequests:
		return "it is asked too often; it is tried again"
	case r.status >= http.StatusInternalServerError:
		return "the fault is on its side, or on that of a proxy before it; look into its log"
	default:
		return "check url and headers against the server's documentation"
	}
}

// strangePage is an answer that no MCP server would give.
type strangePage struct {
	status    int
	mediaType string
}

func (p *strangePage) Error() string {
	return fmt.Sprintf("the server answered HTTP %d with %s", p.status, contentName(p.mediaType))
}

func (p *strangePage) advice() string {
	if p.mediaType == "text/html" {
		return "url leads to a web page, such as one for signing in; check its path, and whether credentials are missing under headers"
	}
	return "check the path of url"
}

// networkAdvice says what stands between the gateway and the server, "" when
// that is not known.
func (o *HTTPOptions) networkAdvice(why error) string {
	at, host := shown(o.URL), o.URL.Host
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
		return fmt.Sprintf("the certificate of %s is signed by an authority that is not trusted here: name a file with that authority's certificate in SSL_CERT_FILE, in the environment of the gateway", host)
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](why); ok {
		return fmt.Sprintf("the certificate of %s cannot be verified: %v", host, e.Err)
	}
	if e, ok := errors.AsType[*net.OpError](why); ok && e.Op == "remote error" { // an alert of TLS
		return fmt.Sprintf("%s refuses TLS with this gateway (%v): it may ask for a client certificate or another version of TLS", host, e.Err)
	}
	timeout, isNet := errors.AsType[net.Error](why)
	switch {
	case errors.Is(why, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing listens on %s: start the server, or check the host and port of url", hostPort(o.URL))
	case errors.Is(why, syscall.EHOSTUNREACH), errors.Is(why, syscall.ENETUNREACH):
		return fmt.Sprintf("there is no way to %s: check the network, and the host of url", host)
	case errors.Is(why, errNoHello), errors.Is(why, context.DeadlineExceeded), isNet && timeout.Timeout():
		return fmt.Sprintf("%s does not answer in time: check that the server is at work there, that no firewall is in between, and raise timeout if it is slow", at)
	case strings.Contains(why.Error(), "malformed HTTP"):
		return fmt.Sprintf("%s does not answer in HTTP/1.1: check the host and port of url; if it speaks TLS, write https://", host)
	case errors.Is(why, syscall.ECONNRESET), errors.Is(why, net.ErrClosed), strings.Contains(why.Error(), "EOF"):
		return fmt.Sprintf("%s ends the connection without an answer (%v): if it speaks TLS, write https:// in url; else look into its log", host, why)
	default:
		return ""
	}
}

// shown is a URL without what may be secret in it.
func shown(u *url.URL) string {
	s := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return s.String()
}

func hostPort(u *url.URL) string { return net.JoinHostPort(u.Hostname(), port(u)) }
