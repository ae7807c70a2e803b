package credentials

import (
	"errors"
	"net/http"
)

// Reasons for which a request is refused that belongs to no known link.
var (
	errMethod    = errors.New("the HTTP method is not GET")
	errWrongHost = errors.New("the Host is not that of public_url, or the gateway does not know how browsers reach it")
	errNoPage    = errors.New("there is no such page")
	errDocument  = errors.New("the gateway has no https public_url, so it has no client metadata")
	errLink      = errors.New("the link has expired, or there was none")
	errResponse  = errors.New("the authorization response is unknown, was used already, or came too late")
	errOpened    = errors.New("the link was opened too often")
)

// notGranted shows why no access was granted.
func notGranted(rw http.ResponseWriter, err error) {
	text, status := "it took too long", http.StatusForbidden
	var known *Error
	if errors.As(err, &known) {
		text = known.text
	}
	if IsAway(err) {
		status = http.StatusServiceUnavailable
	}
	page(rw, status, refusalText(err, text, "open the link again"))
}

// refuse answers an authorization response that is not accepted.
func (w *Web) refuse(rw http.ResponseWriter, r *http.Request, t authRequest, err error) {
	if t.Own {
		w.o.Authenticated(rw, r, t.Next, "", err)
		return
	}
	w.fail(rw, t.Link, err)
}

// fail shows an error page.
func (w *Web) fail(rw http.ResponseWriter, l link, err error) {
	w.o.Failed(rw, l.Upstream, l.principal(), err)
	notGranted(rw, err)
}

// reject answers a request that belongs to no known link.
func (w *Web) reject(rw http.ResponseWriter, status int, reason error, text string) {
	w.o.Failed(rw, "", nil, reason)
	page(rw, status, text)
}

// page writes one sentence as plain text, in which a browser finds no markup.
func page(rw http.ResponseWriter, status int, text string) {
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.WriteHeader(status)
	_, _ = rw.Write([]byte(text + "\n"))
}
