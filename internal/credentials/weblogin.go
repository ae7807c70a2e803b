package credentials

import (
	"crypto/rand"
	"net/http"
)

// BeginLogin sends the browser of a request to an issuer, at which its user logs in to the gateway itself. The browser comes back to
// <base>/oauth/login, maybe at another replica, and [WebOptions.Authenticated] answers it. resource is the URL of the gateway for which the
// access token is, and next is handed on. If there is an error, nothing was written, and the text is for the user.
func (w *Web) BeginLogin(rw http.ResponseWriter, r *http.Request, issuer, resource, next string) error {
	login := w.logins[issuer]
	if login == nil || w.o.Authenticated == nil {
		return failf("users of this issuer cannot log in here")
	}
	base, err := w.base()
	if err != nil {
		return err
	}
	f, nonce, err := login.begin(r.Context(), base+pathLogin, resource)
	if err != nil {
		return err
	}
	t := authRequest{Link: link{Issuer: issuer}, Login: true, Own: true, Nonce: nonce, Next: next}
	return w.sendAway(rw, r, f, t, rand.Text(), "nonce", nonce)
}
